# SPDX-License-Identifier: BSD-2-Clause
# local.mk -- the lab, an emulated machine; %D% is this directory

# Preloaded there.
noinst_LTLIBRARIES += libretransmit.la
libretransmit_la_SOURCES = %D%/retransmit.c
libretransmit_la_LDFLAGS = -module -avoid-version -shared -rpath $(pkglibdir)

EXTRA_DIST += %D%/README.md %D%/debian13 %D%/guest-init %D%/guest-initrd %D%/guest-run %D%/lab %D%/lab-ctl
