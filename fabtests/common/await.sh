# shellcheck shell=bash
# SPDX-License-Identifier: BSD-2-Clause
# await.sh -- to wait for what a process says

# await_words WORDS LOG PID -- until the process has said that, in a log that was empty before it
# began.  If it ends instead, that fails and shows the log.
await_words()
{
	until grep -qsF -- "$1" "$2"; do
		kill -0 "$3" 2>/dev/null || { cat "$2"; return 1; }
		sleep 0.05
	done
}

# await_ready LOG PID -- until a server is ready for clients
await_ready()
{
	await_words 'waiting on port' "$@"
}
