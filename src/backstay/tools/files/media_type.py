"""Recognise files by their first bytes: images that a model can see, and descriptions of other binary files."""

from typing import Final

from backstay.vocab.messages import InlineMedia

LARGEST_IMAGE: Final = 5 * 1024 * 1024
"""Bytes of an image that a model can be shown."""

_IMAGES: Final = (
    (0, b"\x89PNG\r\n\x1a\n", "image/png"),
    (0, b"\xff\xd8\xff", "image/jpeg"),
    (0, b"GIF87a", "image/gif"),
    (0, b"GIF89a", "image/gif"),
)
_KINDS: Final = (
    (0, b"\x7fELF", "a program (ELF)"),
    (0, b"MZ", "a Windows program"),
    (0, b"\xca\xfe\xba\xbe", "a Java class or a Mac program"),
    (0, b"\xcf\xfa\xed\xfe", "a Mac program"),
    (0, b"\0asm", "WebAssembly"),
    (0, b"PK\x03\x04", "a ZIP archive, or a document made of one"),
    (0, b"\x1f\x8b", "compressed with gzip"),
    (0, b"BZh", "compressed with bzip2"),
    (0, b"\xfd7zXZ\0", "compressed with xz"),
    (0, b"\x28\xb5\x2f\xfd", "compressed with zstd"),
    (0, b"7z\xbc\xaf\x27\x1c", "a 7z archive"),
    (257, b"ustar", "a tar archive"),
    (0, b"SQLite format 3\0", "an SQLite database"),
    (0, b"II*\0", "an image (TIFF)"),
    (0, b"MM\0*", "an image (TIFF)"),
    (0, b"BM", "an image (BMP)"),
    (0, b"\0\0\x01\0", "an icon"),
    (4, b"ftyp", "a video, a sound or an image (MP4 family)"),
    (8, b"WAVE", "a sound (WAV)"),
    (0, b"OggS", "a sound (Ogg)"),
    (0, b"fLaC", "a sound (FLAC)"),
    (0, b"ID3", "a sound (MP3)"),
    (0, b"wOF2", "a font"),
    (0, b"\0\x01\0\0\0", "a font"),
    (0, b"\xd0\xcf\x11\xe0", "an old Office document"),
)


def detect_image_type(head: bytes) -> str:
    """Return the media type of an image that models understand; empty when it is none."""
    if head[:4] == b"RIFF" and head[8:12] == b"WEBP":
        return "image/webp"
    return next((kind for at, sign, kind in _IMAGES if head.startswith(sign, at)), "")


def describe_binary(head: bytes) -> str:
    """Describe what a binary file probably is; empty when nothing tells."""
    return next((kind for at, sign, kind in _KINDS if head.startswith(sign, at)), "")


def read_image(content: bytes, name: str = "") -> InlineMedia | None:
    """Return an image as a model is sent it; None when it is none, or too large."""
    kind = detect_image_type(content)
    return InlineMedia(media_type=kind, content=content, name=name) if kind and len(content) <= LARGEST_IMAGE else None
