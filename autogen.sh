#!/bin/sh
# SPDX-License-Identifier: BSD-2-Clause
# Make configure from configure.ac.
set -e
cd "$(dirname "$0")"
mkdir -p m4 build-aux
exec autoreconf -fi
