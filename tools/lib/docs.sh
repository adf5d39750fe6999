# shellcheck shell=bash
# SPDX-License-Identifier: BSD-2-Clause
# docs.sh -- ./runtests' check of the documentation: commands, programs, names
#
# Sourced by steps.  Commands are the indented lines of Markdown, and the lines in .EX or .nf of EXAMPLES on manual pages.  They run
# over tcp, with a file for /dev/dax0.0 and this machine for target.example.  Blocks that begin with "```sh lab", lines
# of lab/lab, and programs that need RDMA are collected for a guest.  C is in blocks that begin with "```c".
#
# shellcheck disable=SC2034,SC2154 # step.sh has been sourced before, and steps use what is set here

# docs_commands FILE -- one a line, without what explains them
docs_commands()
{
	case $1 in
	*.md) sed -nE '/^```/,/^```/d; s/^    +([^ ].*)$/\1/p' "$1" ;;
	*) sed -n '/^\.SH EXAMPLE/,/^\.SH [^E]/{ /^\.\(EX\|nf\)/,/^\.\(EE\|fi\)/{ /^\./d; s/\\-/-/g; s/\\e/\\/g; p } }' "$1" ;;
	esac | sed -E ':join; /\\$/ { N; s/\\\n *//; b join }; s/ +#.*//'
}

# docs_blocks FILE WORDS -- what is in the blocks that begin with these words
docs_blocks()
{
	awk -v begin="\`\`\`$2" '$0 == begin { inside = 1; next } /^```/ { inside = 0; next } inside' "$1"
}

# docs_here LINE -- as it runs here: another memory, another machine
docs_here()
{
	local line=$1

	line=${line//target.example/127.0.0.1}
	line=${line//\/dev\/dax0.0/$docs_memory}
	line=${line//\/var\/tmp\//${docs_memory%/*}/docs.}
	line=${line//\/srv\//$docs_dir/srv/}
	line=${line//-p verbs/-p tcp}
	line=${line//-I 10000/-I 200}
	line=${line//-n 1000/-n 50}
	line=${line//-n 256/-n 16}
	printf '%s' "$line"
}

# docs_pair CLIENT -- with the server of the line before: each serves one client.  What another text has, too, runs once.
docs_pair()
{
	local client=$1 key="${FI_PMEMVERBS_COMMIT-} $docs_server -- $1" server

	[ -n "$docs_server" ] || { echo "no line starts a server for this"; return 1; }
	grep -qsxF -- "$key" "$work/docs.done" && docs_server='' && return
	case $client in
	*fi_pmem_lat* | *fi_pmem_bw*) client=${client/ 127/ -S 64 -I 50 127} ;;
	*fi_pmem_remotelog* | *fi_pmem_scale\ -n*) client=${client/ 127/ -I 20 127} ;;
	esac
	# What the last one has said is not this one's.
	: >"$work/docs.server"
	eval "env $docs_server" >"$work/docs.server" 2>&1 &
	server=$!
	await_ready "$work/docs.server" $server || return
	eval "timeout 120 env $client" && wait $server && echo "$key" >>"$work/docs.done" && docs_server=''
}

# docs_lasting SERVER -- one that serves many, until the document ends
docs_lasting()
{
	docs_end_lasting
	docs_beside "$1"
}

# docs_beside SERVER -- the same, beside those that are there
docs_beside()
{
	# What the last one has said is not this one's.
	: >"$work/docs.lasting"
	eval "exec env $1" >"$work/docs.lasting" 2>&1 &
	docs_lasts=${docs_lasts:+$docs_lasts }$!
	await_ready "$work/docs.lasting" $!
}

docs_end_lasting()
{
	local pid

	for pid in $docs_lasts; do
		kill "$pid"
		wait "$pid"
	done
	docs_lasts=''
}

# docs_prepare DIR -- an empty directory, with what commands may find there
docs_prepare()
{
	docs_memory=$(disk_file)
	docs_dir=$1
	rm -rf "$1" "${docs_memory%/*}/docs.remote-log" && mkdir -p "$1/srv/files" "$1/photos" && ln -s "$top/fabtests" "$1/fabtests" && cd "$1" || return
	head -c 1000000 /dev/urandom >results.dat
	truncate -s 2M srv/log
}

# docs_run LINE
docs_run()
{
	local line

	line=$(docs_here "$1")
	case $line in
	"./runtests list") "$top/runtests" list >/dev/null ;;
	"./runtests "*)
		line=${line%%;*}
		[ -x "$top/tools/steps/${line#* }" ]
		;;
	# Steps of their own, with these words.
	"make bench_calls") grep -q 'bench_calls' "$top/prov/pmemverbs/test/local.mk" ;;
	"../tools/count-instructions "*) (cd "$work/plain" && make bench_calls && "$top/tools/count-instructions" -n 20 "${line#* }") ;;
	../fabtests/lab/debian13*) grep -q fabtests/lab/debian13 "$top/tools/steps/debian13" ;;
	../fabtests/report/report*) grep -q fabtests/report/report "$top/tools/steps/report_tcp" ;;
	../fabtests/power/plug*) grep -q -e '--clients 8' "$top/tools/steps/lab_plug" ;;
	*fabtests/fio/get-source*) grep -q fio/get-source "$top/tools/steps/build" ;;
	"fio "*) [[ $(<"$top/fabtests/fio/fio-test") = *case_jobs* && -e $top/${line#* } ]] ;;
	../rpc/bench/rpc-bench*) grep -q rpc/bench/rpc-bench "$top/tools/steps/rpc_bench_tcp" ;;
	fabtests/remotelog/remotelog*) grep -q fabtests/remotelog/remotelog "$top/tools/steps/remotelog_tcp" ;;
	# In the guest: docs_for_lab.
	../fabtests/lab/lab* | pmem_*_lat*) ;;
	"export FI_PROVIDER_PATH"*) ;;
	"export "*) eval "$line" ;;
	"fi_info "*) eval "$line" | grep -a 'provider: pmemverbs' ;;
	"mpirun "*) docs_mpi "$line" ;;
	"fi_pingpong "*) docs_pingpong "$line" ;;
	"mpicc "* | "cc "*) eval "${line/ / -Wall -Wextra -Werror }" ;;
	"fabtests/"* | "./log "*) eval "timeout 120 $line" ;;
	"./remote_log serve "*) docs_lasting "$line" ;;
	*"./remote_log append "*) eval "timeout 120 bash -c '$line'" && docs_log_restarts ;;
	"./remote_log print "*) eval "$line" | diff - <(seq 100; seq 20) ;;
	# The lab's devices, in a step of its own.
	"fi_pmem_target $docs_memory") grep -q 'fi_pmem_target.*LAB_PMEM' "$top/fabtests/lab/guest/common.sh" ;;
	*fi_pmem_target\ *) docs_lasting "$line" ;;
	"fi_pmem_kv -M "*) docs_lasting "$line" ;;
	"fi_pmem_kv "*) eval "timeout 120 $line" ;;
	"fi_pmem_rs -B "*) docs_beside "$line" ;;
	"fi_pmem_rs "*) eval "timeout 120 ${line/fi_pmem_rs/fi_pmem_rs -I 20 -w 0}" ;;
	"fi_pmem_tx -B "*) docs_beside "$line" ;;
	"fi_pmem_tx "*) eval "timeout 120 ${line/fi_pmem_tx/fi_pmem_tx -I 20 -w 0}" ;;
	*"fi_pmem_rpc -M "*) docs_lasting "$line" ;;
	*fi_pmem_rpc\ *) eval "timeout 120 $line" ;;
	# Of a program that is running: any does.
	"fi_pmem_info --connect "*) docs_lasting "FI_PMEMVERBS_ANSWER=on fi_pmem_demo -P ${line##*:} -M $docs_memory" && eval "timeout 120 $line" ;;
	"mkdir "* | "fi_pmem_top "*) eval "timeout 120 $line" ;;
	*" list") eval "$line" >/dev/null ;;
	*fi_pmem_stress*) eval "timeout 120 env $line" ;;
	*fi_pmem_cp\ * | *fi_pmem_info* | *" -A "*) eval "timeout 120 $line" ;;
	*fi_pmem_*\ 127.0.0.1*) docs_pair "$line" ;;
	*fi_pmem_*) docs_end_lasting; docs_server=$line ;;
	*) echo "no test runs this line" && return 1 ;;
	esac
}

# docs_log_restarts -- while lines are appended the target is killed, and comes back: none is lost, none is there twice
docs_log_restarts()
{
	local i said=$work/docs.appended initiator

	mkfifo docs.lines || return
	timeout 120 ./remote_log append 127.0.0.1 9555 <docs.lines >"$said" &
	initiator=$!
	exec 7>docs.lines
	for ((i = 1; i <= 20; i++)); do
		if [ $((i % 7)) = 0 ]; then
			kill -9 "$docs_lasts"
			wait "$docs_lasts" 2>/dev/null
			docs_lasts=''
		fi
		echo "$i" >&7
		[ -n "$docs_lasts" ] || docs_lasting "./remote_log serve ${docs_memory%/*}/docs.remote-log 9555" 7>&- || return
		until grep -qx "durable: $i" "$said"; do
			kill -0 "$docs_lasts" "$initiator" || return
			sleep 0.1
		done
	done
	exec 7>&-
	wait "$initiator"
}

# docs_pingpong LINE -- it does not say that it is ready.  Its own port may be a connection's that was there before.
docs_pingpong()
{
	[[ $1 = *\ 127.0.0.1 ]] || { docs_server=$1; return; }
	# shellcheck disable=SC2086 # words
	timeout 120 "$top/fabtests/common/pair" --port 9226 \
		${docs_server/fi_pingpong/fi_pingpong -B 9226} -- ${1/fi_pingpong/fi_pingpong -P 9226} && docs_server=''
}

# docs_mpi LINE -- its "..." is a program with its options
docs_mpi()
{
	# Root may, and one processor is enough.
	export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 OMPI_MCA_rmaps_base_oversubscribe=1
	(build_mpi) && eval "timeout -k 10 120 ${1/.../-n 2 --oversubscribe --allow-run-as-root $work/plain/pmem_mpi -M $docs_memory}"
}

# docs_file FILE -- all its commands, each with the environment that the ones before have set
docs_file()
{
	local line docs_server='' docs_lasts='' status=0

	docs_commands "$1" >"$work/docs.commands"
	while read -r line <&3; do
		echo "${1#"$top"/}: $line"
		docs_run "$line" && continue
		echo "not ok ${1#"$top"/}: this line failed: $line"
		status=1
	done 3<"$work/docs.commands"
	docs_end_lasting
	[ -z "$docs_server" ] || { echo "not ok ${1#"$top"/}: no client comes to: $docs_server"; status=1; }
	return $status
}

# docs_for_lab DIR -- makes a script there for a guest, to be run in the build folder: what needs RDMA or
# persistent memory.  What makes namespaces comes last.
docs_for_lab()
{
	local file line server=''

	rm -rf "$1" && mkdir -p "$1" && (cd "$1" && docs_extract && gcc -o log log.c append.c -lfabric) || return
	{
		printf '%s\n' 'set -ex' "PATH=\$PATH:$work/plain:/usr/sbin:/sbin" \
			"FI_PMEMVERBS_CORE=verbs $1/log \$LAB_PMEM \$LAB_ADDR"
		for file in "$top"/docs/*.md "$top"/man/*.[17]; do
			docs_commands "$file"
		done | while read -r line; do
			line=${line//target.example/\$LAB_ADDR}
			case $line in
			# Two minutes, and fabtests/lab/guest/bench does it.
			*remotelog*) ;;
			../fabtests/lab/lab*)
				line=${line#* }
				echo "${line//..\/fabtests/$top/fabtests}"
				;;
			pmem_*_lat*' -M '*) server=$line ;;
			pmem_*_lat*) echo "$top/fabtests/common/pair $server -- ${line/ \$/ -S 64 -I 20 \$}" ;;
			esac
		done | awk '!seen[$0]++'
		for file in "$top"/docs/*.md; do
			docs_blocks "$file" 'sh lab'
		done
	} >"$1/guest.sh"
}

# docs_extract -- the programs in the documentation; README's and programming.md's are one
docs_extract()
{
	docs_blocks "$top/README.md" c >readme.c
	# A line that stands alone, then a function.
	sed '/^#include/,$d' readme.c >line.c
	sed -n '/^#include/,$p' readme.c >append.c
	docs_blocks "$top/docs/programming.md" c >log.c
	docs_blocks "$top/docs/log.md" c >remote_log.c
	docs_blocks "$top/docs/mpi.md" 'c mpi' >mpi_put.c
	printf '#include <%s>\n' string.h rdma/fi_eq.h rdma/fi_errno.h rdma/fi_ext_pmemverbs.h >list.c
	echo 'int push(struct fi_pmemverbs_chain_ops *, struct fid_ep *, struct fid_cq *, uint64_t, uint32_t, uint64_t, uint64_t *, const char *, uint64_t *);' >>list.c
	docs_blocks "$top/docs/programming.md" 'c list' >>list.c
	grep -q '^int main' remote_log.c && grep -q writemsg line.c && grep -q '^ssize_t append' append.c && grep -q '^int main' log.c &&
		grep -q '^int push' list.c
}

# docs_programs -- what is C in the documentation compiles
docs_programs()
{
	local file flags=(-std=gnu11 -Wall -Wextra -Werror -c -o /dev/null)

	docs_extract || return
	printf '%s\n' '#include <rdma/fi_rma.h>' 'void line(struct fid_ep *ep, struct fi_msg_rma msg);' \
		'void line(struct fid_ep *ep, struct fi_msg_rma msg)' '{' "$(cat line.c)" '}' >function.c
	for file in function.c append.c log.c remote_log.c list.c; do
		gcc "${flags[@]}" -I"$top/include" $file || return
	done
}

# docs_synced -- a target that can't make its file's name durable does not begin
docs_synced()
{
	local command

	gcc -o log log.c append.c -lfabric && gcc -o remote_log remote_log.c -lfabric || return
	for command in "log new/log 127.0.0.1" "remote_log serve new/log 9555"; do
		rm -rf new && mkdir new || return
		# shellcheck disable=SC2086 # words
		PMEM_CP_ACCIDENT=fail_fsync:/new LD_PRELOAD=$work/plain/.libs/libcp_crash.so timeout 60 ./$command 2>&1 |
			grep -qx 'new/log: Input/output error' && continue
		echo "not ok $command goes on although its file's directory can't be synced"
		return 1
	done
}

# docs_list -- the list of programming.md has what was put in front of it, the last first
docs_list()
{
	gcc -std=gnu11 -Wall -Wextra -Werror -D_GNU_SOURCE -I"$top/include" -o list list.c "$top/fabtests/kv/list_run.c" \
		"$work/plain/.libs/libconnection.a" -lfabric &&
		[ "$(FI_PMEMVERBS_CORE=tcp FI_PMEMVERBS_DOMAIN=dmp ./list)" = $'three\ntwo\none' ] && return
	echo "not ok the list of programming.md does not do what it says"
	return 1
}

# docs_names -- constants, calls, pages and files that the documentation names: there are such
docs_names()
{
	local name file status=0 texts=("$top/README.md" "$top"/docs/*.md "$top"/man/*.[17])

	{
		cat /usr/include/rdma/*.h /usr/include/rdma/providers/*.h "$top"/include/rdma/*.h "$top"/fabtests/*/*.[ch] "$top"/fabtests/*/*/*.[ch]
		cat /usr/include/librpma.h "$top"/prov/pmemverbs/*/*.[ch] "$top"/configure.ac
		fi_info -e
	} 2>/dev/null | grep -aoE '\w+' | sort -u >"$work/docs.known"
	# shellcheck disable=SC2013 # names have no blanks
	for name in $(sed 's/\\-/-/g' "${texts[@]}" | grep -ohE '\b(FI_[A-Z][A-Z0-9_]*[A-Z0-9]|rpma_[a-z_0-9]+|RPMA_[A-Z_]+)\b' | sort -u |
		comm -23 - "$work/docs.known"); do
		[ "$name" = FI_PMEMVERBS_NAME ] && continue # stands for any
		[[ $name = rpma_* || $name = RPMA_* ]] && [ ! -e /usr/include/librpma.h ] && continue
		echo "not ok the documentation names $name, which nobody knows" && status=1
	done
	# shellcheck disable=SC2013 # names have no blanks
	for name in $(sed -E 's/\\-/-/g; s/^\.(BR|RB) ([a-z_]+) \(/\2(/' "${texts[@]}" | grep -ohE '\bf?i?_?pmem[a-z_]*\([17]\)' | sort -u); do
		file=$top/man/${name/(/.}
		[ -e "${file%)}" ] || { echo "not ok there is no page $name" && status=1; }
	done
	for file in "$top/README.md" "$top"/docs/*.md; do
		for name in $(grep -oE '\]\([^):#]+\)' "$file" | tr -d '](' | tr -d ')'); do
			[ -e "${file%/*}/$name" ] || { echo "not ok ${file##*/} has a link to nothing: $name" && status=1; }
		done
	done
	return $status
}

# docs_places -- what HACKING.md says is in a file is there: `FILE` (`NAME`, ...), or `NAME` (`FILE`)
docs_places()
{
	local text file names name status=0

	text=$(tr '\n' ' ' <"$top/HACKING.md" | tr -s ' ')
	while read -r file names; do
		for name in $names; do
			# Of a case the end may be left out; a file is no name.
			name=${name%...} && name=${name##*/}
			[[ $name = *.* ]] || grep -rqF --include="${file##*/}" -- "${name%\*}" "$top"/{include,prov,rpc,util,fabtests} && continue
			echo "not ok HACKING.md says that $name is in $file, and it is not" && status=1
		done
	done < <(
		grep -oE '`[a-z_0-9/]+\.[ch]` \([^()]*\)' <<<"$text" | sed -E 's/^`([^`]+)`/\1|/; :next; s/\|[^`]*`([^`]+)`/ \1|/; t next; s/\|.*//'
		grep -oE '`[A-Za-z_0-9]+` \(`[a-z_0-9/]+\.[ch]`' <<<"$text" | sed -E 's/^`([^`]+)` \(`([^`]+)`$/\2 \1/'
	)
	return $status
}

# docs_options PROGRAM PAGE -- both have the same options
docs_options()
{
	diff <("$1" --help | grep -oE '^ {2,6}-[^ =]+( <[^>]+>)?(, --[^ =]+)?' | grep -oE -- '--?[A-Za-z][A-Za-z-]*' | sort -u) \
		<(sed -nE '/^\.T[PQ]/{ n; s/\\-/-/g; p }' "$2" | grep '^\.[BIR]' |
			grep -oE -- '[ "(]--?[A-Za-z][A-Za-z-]*' | tr -d ' "(' | sort -u) |
		grep -v -e '^[0-9]' -e ' --usage$' | grep . || return 0
	echo "not ok ${2##*/} has other options than --help"
	return 1
}

# docs_pages -- pages of all programs, without a warning of groff; messages and options are on them
docs_pages()
{
	local page name status=0

	for page in "$top"/man/*.[17]; do
		[ -z "$(man --warnings -l -P cat "$page" 2>&1 >/dev/null)" ] && continue
		echo "not ok groff warns of $page" && status=1
		man --warnings -l -P cat "$page" >/dev/null
	done
	# shellcheck disable=SC2046 # words
	"$top/tools/check-messages" "$top/man/fi_pmemverbs_troubleshooting.7" "$top/util/connection/explain.c" \
		$(find "$top/prov/pmemverbs" -name test -prune -o -name '*.[ch]' ! -name metrics.c -print) || status=1
	# What it says of each metric, and why there are none.
	"$top/tools/check-messages" "$top/man/fi_pmemverbs_metrics.7" "$top/prov/pmemverbs/objects/metrics.c" || status=1
	# shellcheck disable=SC2013 # names have no blanks
	for name in $(sed -n "s/.*complete -F _pmemverbs //p" "$work/plain/util/completion.bash"); do
		name=$work/plain/$name
		page=$top/man/${name##*/}.1
		[ -e "$page" ] || { echo "not ok there is no page ${page##*/}" && status=1 && continue; }
		docs_options "$name" "$page" || status=1
	done
	return $status
}
