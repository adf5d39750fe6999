# shellcheck shell=bash
# SPDX-License-Identifier: BSD-2-Clause
# check.sh -- unit tests in a build folder
#
# shellcheck disable=SC2034,SC2154 # step.sh has been sourced before, and steps use what is set here

# What check runs the tests by.
check_as=()

# confine -- by what has no network but loopback, and no rights of root, if that can be had
confine()
{
	[ -O "$work" ] && unshare --net true 2>/dev/null || return 0
	check_as=(unshare --net sh -c '/sbin/ip link set lo up && exec setpriv --bounding-set -all \
		--inh-caps -all --no-new-privs "$@"' confined)
}

# check BUILD [VARIABLE=VALUE]... -- its unit tests; unlike `make check' it builds nothing else.  They wait more than they
# compute: most of a test's time is libfabric's start.
check()
{
	local tree=$work/$1 status=0

	shift
	rm -f "$tree"/test_*.log
	# Criterion's libgit2 reads all certificates, in each case's process.
	make -j"$(nproc)" -C "$tree" check-TESTS "$@" TESTS= &&
		(become_without /etc/ssl/certs/ca-certificates.crt "${check_as[@]}" make -j$((3 * $(nproc))) -C "$tree" check-TESTS "$@") || {
		status=1
		# Indented, as below: these lines are not to be counted again.
		sed 's/^/    /' "$tree/test-suite.log"
	}
	# Criterion does not mind how a test's process ends.
	if grep -A9 -e 'Sanitizer: ' -e 'runtime error: ' "$tree"/test_*.log >"$tree/reports"; then
		status=1
		sed 's/^/    /' "$tree/reports"
	fi
	return $status
}
