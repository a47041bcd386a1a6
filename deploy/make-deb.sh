#!/bin/sh
# Makes Debian packages of what is built in build/release, without root and without
# a network: make-deb.sh VERSION FOLDER
set -eu
version=$1
out=$2
here=$(cd "$(dirname "$0")/.." && pwd)

for tool in dh dpkg-buildpackage; do
    if ! command -v "$tool" >/dev/null 2>&1; then
        echo "make deb needs $tool: apt-get install debhelper dpkg-dev" >&2
        exit 1
    fi
done
rm -rf "$out"
mkdir -p "$out/tree"
cp -r "$here/deploy/debian" "$out/tree/"
# The date of what is packaged, so that the same tree gives the same packages.
when=$(git -C "$here" log -1 --format=%cD 2>/dev/null || date -R)
cat >"$out/tree/debian/changelog" <<END
mltune ($version) unstable; urgency=medium

  * Version $version, packaged by \`make deb'.

 -- $(sed -n 's/^Maintainer: //p' "$here/deploy/debian/control")  $when
END
cd "$out/tree"
# The build is not under way here, but the same programs are made with its flags.
if ! MLTUNE_TREE=$here DEB_BUILD_OPTIONS="noautodbgsym nocheck" MAKEFLAGS='' \
    dpkg-buildpackage -b -us -uc >"$out/log" 2>&1; then
    cat "$out/log" >&2
    exit 1
fi
cd "$out"
rm -rf tree
ls ./*.deb | sed "s,^\.,$out,"
