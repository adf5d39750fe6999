# shellcheck shell=bash
# SPDX-License-Identifier: BSD-2-Clause
# say.sh -- what scripts say, each with its own name

say()
{
	printf '%s\n' "$*"
}

# die WHAT -- it can't go on
die()
{
	printf '%s: %s\n' "${0##*/}" "$*" >&2
	exit 1
}

# wrong WHAT -- the command line
wrong()
{
	printf '%s: %s; %s --help tells the options\n' "${0##*/}" "$*" "${0##*/}" >&2
	exit 2
}
