# SPDX-License-Identifier: BSD-2-Clause
# local.mk -- what developers run; %D% is this directory

EXTRA_DIST += \
	%D%/analyse \
	%D%/check-messages \
	%D%/check-reproducible \
	%D%/circles.awk \
	%D%/count-instructions \
	%D%/coverage \
	%D%/docs.sh \
	%D%/layers \
	%D%/setup.sh \
	%D%/version
