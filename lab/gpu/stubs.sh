#!/bin/sh
# Prints C for every function of NVML that a header or a program names: each says "not supported", unless nvml.c has it.
# usage: stubs.sh nvml.h nvidia-smi
set -eu
{
    grep -oE '\bnvml[A-Z][A-Za-z0-9_]+ *\(' "$1" | tr -d ' ('
    grep -aoE '\bnvml[A-Z][A-Za-z0-9_]+\b' "$2"
} | sort -u | sed 's/.*/__attribute__((weak)) int &(void) { return 3; }/'
