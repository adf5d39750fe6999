# shellcheck shell=bash
# SPDX-License-Identifier: BSD-2-Clause
# await.sh -- to wait for what a process says

# await_words WORDS LOG PID -- until the process has said that, in a log that was empty before it
# began.  If it ends instead, that fails and shows the log.  No process is started to look again: in the lab
# that would take longer than what is waited for.  The one that is started at first changes $!.
await_words()
{
	local -a lines=()
	local nothing

	exec {nothing}<> <(:)
	until [ ! -e "$2" ] || mapfile -t lines <"$2"; [[ ${lines[*]} = *"$1"* ]]; do
		kill -0 "$3" 2>/dev/null || { cat "$2"; exec {nothing}>&-; return 1; }
		# Nothing ever comes there.
		read -r -t 0.05 -u "$nothing" || true
	done
	exec {nothing}>&-
}

# await_ready LOG PID -- until a server is ready for clients
await_ready()
{
	await_words 'waiting on port' "$@"
}
