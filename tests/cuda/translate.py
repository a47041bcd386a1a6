#!/usr/bin/env python3
"""Writes a CUDA source as C++ for tests/cuda/cuda_runtime.h: launches become
calls. Usage: translate.py FILE.cu >FILE.cpp"""
import re
import sys

LAUNCH = re.compile(r"(\w+(?:<[^<>;(){}]*>)?)\s*<<<(.*?)>>>\s*\(", re.S)


def main():
    text = open(sys.argv[1]).read()
    text, n = LAUNCH.subn(
        r"emulated_launch([](auto... a) { \1(a...); }, \2)(", text)
    if "<<<" in text:
        sys.exit(f"{sys.argv[1]}: a launch that is not understood")
    print(f'#line 1 "{sys.argv[1]}"\n{text}', end="")


if __name__ == "__main__":
    sys.exit(main())
