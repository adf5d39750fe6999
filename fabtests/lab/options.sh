# shellcheck shell=bash
# SPDX-License-Identifier: BSD-2-Clause
# options.sh -- for lab: its command line
#
# shellcheck disable=SC2034,SC2154 # lab and its other parts set these and use them

usage() {
	cat <<-'END'
	usage: lab [OPTION]... [--] COMMAND [ARG]...

	Boots a guest that has RDMA verbs (Soft-RoCE, rxe0) and persistent memory (an
	emulated NVDIMM), runs COMMAND in it in the current directory, and exits with
	COMMAND's status. The guest sees the host's files; what it writes is thrown away
	with it, except below a --share.

	  --persistence adr|eadr  what the NVDIMM's platform saves on power failure: the
	                          memory controller's buffers, or the caches too
	                          (default: eadr)
	  --pmem devdax|fsdax|raw|none
	                          /dev/dax0.0, an ext4 mounted with -o dax at /mnt/pmem,
	                          /dev/pmem0, or nothing (default: devdax)
	  --cxl                   the persistent memory is a CXL device of type 3, no NVDIMM; Linux
	                          says adr of it, whatever --persistence says. With --pmem none its
	                          memory has no region yet
	  --nvdimm FILE           keep the NVDIMM's contents in FILE (made when missing)
	  --share DIR             share DIR with the host, read-write; may be repeated
	  --disk FILE             attach a raw image as /dev/vda
	  --root DIR              the guest sees the files below DIR as its own /, not the
	                          host's; COMMAND starts in the current directory's path
	  --env NAME[=VALUE]      pass an environment variable; may be repeated. FI_*,
	                          LAB_* and PMEM* are passed anyway
	  --peer COMMAND          boot a second guest too, and run the shell COMMAND in it
	                          before COMMAND; its output is prefixed "peer: "
	  --peer-nvdimm FILE, --peer-disk FILE
	                          --nvdimm and --disk for the second guest
	  --pidfile FILE          write qemu's process id to FILE (the peer's: FILE.peer)
	  --timeout SECONDS       give up after so long; 0 is never (default: 300)
	  --mem MIB, --cpus N     the size of a guest (default: 2048, and 2, or 1 with --icount)
	  --icount                the guest's clock counts instructions, a nanosecond each, unless it
	                          sleeps. What a program measures is the same each time, whatever the
	                          host does. On one processor nothing may poll for what another process
	                          does. With more of them, one runs until it rests, or executes PAUSE:
	                          so a process that polls has to do that between two looks
	  --console               show the guests' kernel messages on standard error
	  --verbose               show what is done
	  --packages              print the Debian packages that this needs, and end
	  --set-up                install them and fetch the kernel, if need be, and end
	  --help, --version

	In the guest: LAB_ADDR is its address, LAB_PMEM the persistent memory, LAB_PEER the
	other guest's address; lab-ctl cuts the link and more (lab-ctl --help).

	Exit status: COMMAND's; 2 this was called wrongly, 124 timed out, 125 the lab failed,
	137 qemu was killed.
	END
}

persistence=eadr pmem=devdax nvdimm='' disk='' peer='' peer_nvdimm='' peer_disk=''
cxl='' pidfile='' root=/ timeout=300 mem=2048 cpus='' icount='' console='' verbose='' only_set_up=''
shares=() environment=() command=()

# want_number VALUE OPTION -- insist on a number
want_number() {
	[[ $1 =~ ^[0-9]+$ ]] || wrong "$2 needs a number, not '$1'"
}

# use_option OPTION VALUE -- one that has a value
use_option() {
	local name
	case $1 in
	--persistence) persistence=$2 ;;
	--pmem) pmem=$2 ;;
	--nvdimm) nvdimm=$(realpath -m -- "$2") ;;
	--peer-nvdimm) peer_nvdimm=$(realpath -m -- "$2") ;;
	--share)
		[ -d "$2" ] || wrong "--share $2: no such directory"
		shares+=("$(realpath -- "$2")")
		;;
	--disk) disk=$(realpath -- "$2") || wrong "--disk $2: no such file" ;;
	--peer-disk) peer_disk=$(realpath -- "$2") || wrong "--peer-disk $2: no such file" ;;
	--env)
		name=${2%%=*}
		[[ $name =~ ^[A-Za-z_][A-Za-z_0-9]*$ ]] || wrong "--env $2: not a variable's name"
		if [[ $2 == *=* ]]; then
			environment+=("$2")
		elif [ -n "${!name+set}" ]; then
			environment+=("$name=${!name}")
		fi
		;;
	--peer) peer=$2 ;;
	--root)
		[ -d "$2" ] || wrong "--root $2: no such directory"
		root=$(realpath -- "$2")
		;;
	--pidfile) pidfile=$(realpath -m -- "$2") ;;
	--timeout) timeout=$2 ;;
	--mem) mem=$2 ;;
	--cpus) cpus=$2 ;;
	esac
}

# check_options -- whether their values make sense, also together
check_options() {
	case $persistence in
	adr | eadr) ;;
	*) wrong "--persistence is adr or eadr, not '$persistence'" ;;
	esac
	case $pmem in
	devdax | fsdax | raw | none) ;;
	*) wrong "--pmem is devdax, fsdax, raw or none, not '$pmem'" ;;
	esac
	# Others would write all over memory whose accesses are emulated one by one: minutes.
	[ -z "$cxl" ] || [[ $pmem =~ ^(devdax|none)$ ]] || wrong "--cxl goes with --pmem devdax or none"
	[ -z "$cxl" ] || [ -z "$nvdimm$peer_nvdimm" ] || wrong "--cxl keeps nothing: it goes without --nvdimm"
	[ -z "$icount" ] || [ -z "$peer" ] || wrong "--icount goes without --peer: each guest would have its own time"
	want_number "$timeout" --timeout
	want_number "$mem" --mem
	want_number "$cpus" --cpus
}

parse_options() {
	while [ $# -gt 0 ]; do
		# --name=value and --name value are the same
		case $1 in
		--*=*) set -- "${1%%=*}" "${1#*=}" "${@:2}" ;;
		esac
		case $1 in
		--persistence | --pmem | --nvdimm | --share | --disk | --env | --peer | --peer-nvdimm | \
			--peer-disk | --pidfile | --root | --timeout | --mem | --cpus)
			[ $# -gt 1 ] || wrong "$1 needs a value"
			use_option "$1" "$2"
			shift
			;;
		--cxl) cxl=cxl ;;
		--icount) icount=icount ;;
		--console) console=yes ;;
		--verbose) verbose=yes ;;
		--packages) echo "${packages[@]}"; exit 0 ;;
		--set-up) only_set_up=yes ;;
		--help | -h) usage; exit 0 ;;
		--version) exec "$here/../../tools/version" lab ;;
		--) shift; break ;;
		-*) wrong "unknown option $1" ;;
		*) break ;;
		esac
		shift
	done
	command=("$@")
	cpus=${cpus:-$([ -z "$icount" ] && echo 2 || echo 1)}
	[ -n "$only_set_up" ] || [ ${#command[@]} -gt 0 ] || wrong "no COMMAND"
	check_options
}
