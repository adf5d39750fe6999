# shellcheck shell=bash
# SPDX-License-Identifier: BSD-2-Clause
# scripts.sh -- which files are shell scripts

# scripts DIR|FILE... -- their names: the first line, or shellcheck's comment, says that it is one
scripts()
{
	find "$@" -type f ! -name '*.[cho]' -print0 | sort -z |
		xargs -0 -r awk 'FNR == 1 && /^#!.*sh$|^# shellcheck shell=/ || FNR == 2 && /^# shellcheck shell=/ { print FILENAME }
			FNR == 3 { nextfile }'
}
