"""Tricky lines of shell, each of which starts at least one program. None of them is meant to be run outside of a scratch folder."""


def _lines(text: str) -> tuple[str, ...]:
    return tuple(text.strip("\n").split("\n"))


LINES: tuple[str, ...] = (
    *_lines(
        """
alpha
alpha && beta
alpha||beta
false || beta
alpha;beta
alpha&beta
alpha | beta
alpha |& beta
! alpha
! alpha && ! beta
true && true && true && gamma
:;alpha
{ alpha; }
(alpha)
( (alpha) )
((1)); alpha
if alpha; then beta; else gamma; fi
if true; then beta; elif x; then y; fi
while alpha; do break; done
until alpha; do beta; break; done
for i in 1 2; do alpha $i; done
for ((i=0;i<2;i++)); do alpha; done
case x in x) alpha;; esac
case x in (x|y) alpha ;& z) beta;; esac
f() { alpha; }; f
function f { alpha; }; f
f () (alpha); f
coproc alpha; wait
coproc NAME { alpha; }; wait
time alpha
time -p alpha
! time alpha
time { alpha; }
select x in a; do alpha; break; done <<< 1
[[ -n x ]] && alpha
[[ a == a && b != c ]] && alpha
[[ abc =~ ^(a|b).* ]] && alpha
trap 'alpha' EXIT
trap alpha 0
eval 'alpha'
eval alpha one
eval "al"'pha'
eval eval alpha
command alpha
builtin eval alpha
exec alpha
exec -a name alpha
command -p alpha; alpha
command eval alpha
. ./script
source ./script
bash ./script
bash < script
echo $(alpha)
echo `alpha`
echo "$(alpha)"
echo "`alpha`"
echo $(echo $(alpha))
echo `echo \\`alpha\\``
echo $( (alpha) )
echo $((1 + $(alpha; echo 1)))
echo $[1 + $(alpha; echo 1)]
echo ${x:-$(alpha)}
echo ${x:-`alpha`}
echo "${x:-"$(alpha)"}"
echo "${x:-'$(alpha)'}"
echo ${x:=$(alpha)}
x=1; echo ${x:+$(alpha)}
x=abc; echo ${x/$(alpha)/y}
x=abc; echo ${x#$(alpha)}
echo ${x[$(alpha; echo 0)]}
cat <(alpha)
alpha > >(beta)
diff <(alpha) <(beta)
x=$(alpha)
x=$(alpha) beta
x=(1 $(alpha))
x[$(alpha; echo 0)]=1
a=([$(alpha; echo 1)]=2)
echo "a $(echo "b $(alpha)")"
echo $(case x in x) alpha;; esac)
echo $(<file)$(alpha)
cat <<< $(alpha)
cat <<< "`alpha`"
bash <<< alpha
bash <<< 'alpha; beta'
sh -s <<< alpha
\\alpha
al''pha
"alpha"
'alpha'
$'alpha'
$'\\x61lpha'
$'\\141lpha'
$"alpha"
a\\l\\p\\ha
{alpha,one}
{al,be}pha
al{p,}ha
./alpha
/???/alpha; alpha
x=alpha; $x
x='alpha one'; $x
x=al; ${x}pha
x=alpha y=x; ${!y}
x=(alpha); ${x[0]}
x=alpha; "$x"
set -- alpha; $1
set -- alpha; "$@"
for c in alpha beta; do $c; done
alpha${IFS}one
IFS=,; x=alpha,one; $x
read x <<< alpha; $x
printf -v x alpha; $x
$(echo alpha)
`echo alpha` one
$EMPTY alpha
$EMPTY$NONE alpha one
~/alpha; alpha
x=1 alpha
X=1 Y=2 alpha one
>out alpha
<file alpha
2>&1 alpha
{fd}>out alpha
&>out alpha
x=1 >out alpha
alpha 2>&1 >out | beta
declare x=alpha; $x
unset x; ${x:-alpha}
x='a[$(alpha; echo 0)]'; echo $((x))
x='a[$(alpha; echo 0)]'; [[ x -eq 1 ]]
[[ 'a[$(alpha; echo 0)]' -eq 1 ]]
test -v 'a[$(alpha; echo 0)]'
[ -v 'a[$(alpha; echo 0)]' ]
printf -v 'a[$(alpha; echo 0)]' x
read 'a[$(alpha; echo 0)]' <<< x
a=(1); unset 'a[$(alpha; echo 0)]'
declare 'a[$(alpha; echo 0)]=1'
let 'a[$(alpha; echo 0)]=1'
x='$(alpha)'; echo "${x@P}"
((a[$(alpha; echo 0)]=1))
x='a[$(alpha; echo 0)]'; echo ${b[x]}
x='a[$(alpha; echo 0)]'; y=abc; echo ${y:x}
x='a[$(alpha; echo 0)]'; for ((x;0;)); do :; done
declare -n r='a[$(alpha; echo 0)]'; echo $r
x='a[$(alpha; echo 0)]'; ((x))
x=$(echo 'a[$(alpha; echo 0)]'); echo $((x))
mapfile -C 'alpha x' -c 1 a <<< 1
PS4='$(alpha)'; set -x; :
declare -i x; x='a[$(alpha; echo 0)]'
x='a[$(alpha; echo 0)]'; echo ${x:$x}
echo $((a[`alpha; echo 0`]))
BASH_ENV=./script bash -c :
enable -n echo; alpha
env alpha
env X=1 alpha
env -S 'alpha one'
env -u X alpha
env -- alpha
env -S'alpha one' two
env --split-string='alpha one'
env -S "X=1 alpha"
timeout 5 alpha
timeout -s KILL 5 alpha
timeout --signal=KILL 5 alpha
nice alpha
nice -n 5 alpha
nice -5 alpha
nice -n5 alpha
nohup alpha
stdbuf -oL alpha
setsid alpha
setsid -w alpha
echo one | xargs alpha
echo one | xargs -n1 alpha
echo one | xargs -I{} alpha {}
echo one | xargs sh -c 'alpha "$@"' _
echo x | xargs -I% sh -c 'alpha %'
echo one | xargs env alpha
find . -maxdepth 0 -exec alpha {} \\;
find . -maxdepth 0 -exec alpha {} +
find . -maxdepth 0 -execdir alpha ';'
find . -maxdepth 0 -exec sh -c 'alpha' \\; -exec beta {} \\;
find . -maxdepth 0 -exec env alpha {} \\;
sh -c alpha
sh -c 'alpha && beta'
bash -c 'alpha'
bash -c -- alpha
bash --norc -c alpha
bash -o pipefail -c alpha
bash -c 'eval "$1"' _ alpha
bash -c '$0' alpha
sh -ec 'alpha'
bash +x -c alpha
sh -c "sh -c 'alpha'"
echo alpha | sh
printf '%s' alpha | bash
printf '\\141lpha' | sh
echo YWxwaGE= | base64 -d | sh
env env env alpha
env sh -c alpha
timeout 5 sh -c 'echo $(alpha)'
nice env timeout 5 alpha
flock out alpha
flock out -c 'alpha one'
bash -c "$(echo alpha)"
x=alpha bash -c '$x'
export x=alpha; bash -c '$x'
echo 'alpha' > f; . ./f
echo alpha > f; sh f
cp "$STUBS/alpha" copied; ./copied
"""
    ),
    "alpha\nbeta",
    "alpha\n\n\n   beta",
    "alpha # beta\ngamma",
    "alpha \\\n  one\nbeta",
    "al\\\npha",
    "alpha &\nbeta",
    "alpha \n# note\nbeta",
    "alpha #x\\\nbeta",
    "alpha&&\nbeta",
    "echo $(# note )\nalpha)",
    "echo \"$(alpha <<'E'\nx)\nE\n)\"",
    "cat <<E\n$(alpha)\nE",
    "cat <<E\n`alpha`\nE",
    "cat <<-E\n\t`alpha`\n\tE",
    "cat <<'E'\n$(beta)\nE\nalpha",
    "cat <<\\E\n$(beta)\nE\nalpha",
    "cat <<E; alpha\nx\nE",
    "cat <<A <<B\n$(alpha)\nA\n$(beta)\nB",
    "cat <<E && alpha\nx\nE\nbeta",
    'cat <<"E"\nE\nalpha',
    "cat <<E\n${x:-$(alpha)}\nE",
    "bash <<E\nalpha\nE",
    "bash <<'E'\nalpha\nE",
    "cat <<E | bash\nalpha\nE",
    "cat <<E\nx\\\nE\nE\nalpha",
    "shopt -s expand_aliases; alias q=alpha\nq",
    "sh -s one <<< alpha",
    'env X"}"=1 alpha',
    "PATH\\\n=. alpha",
    "x\\\n=1 alpha",
)
"""Each starts `alpha`, `beta` or `gamma`, stubs that only say so."""
