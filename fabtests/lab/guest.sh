# shellcheck shell=bash
# SPDX-License-Identifier: BSD-2-Clause
# guest.sh -- for lab: a guest, which is a qemu process
#
# shellcheck disable=SC2034,SC2154 # lab and its other parts set these and use them

# By guest, "main" or "peer":
declare -A pid=()          # its qemu process
declare -A reply=()        # the file descriptor that its control port reads from
declare -A copier=()       # the process that copies its command's output
declare -A unformatted=()  # whether its NVDIMM is a new one
declare -A running=()      # whether its command may run
declare -A ended=()        # its command's exit status

# quote WORD... -- for a shell of any kind
quote() {
	local word between=''
	for word; do
		printf "%s'%s'" "$between" "${word//\'/\'\\\'\'}"
		between=' '
	done
}

# comma PATH -- as qemu wants it inside an option
comma() {
	printf '%s' "${1//,/,,}"
}

# write_job GUEST -- what guest-initrd, guest-init and lab-ctl read
write_job() {
	local guest=$1 job=$run/$1.job name addr=192.0.2.1 other='' other_name='' net=dummy groups i=0
	if [ -n "$peer" ]; then
		net=virtio
		case $guest in
		main) addr=198.51.100.2 other=198.51.100.1 other_name=peer ;;
		peer) addr=198.51.100.1 other=198.51.100.2 other_name=main ;;
		esac
	fi
	groups="$net rdma"
	! has_memory || groups+=" ${cxl:-pmem}"
	[ "$pmem" != fsdax ] || groups+=" ext4"
	[ -z "$(disk_of "$guest")" ] || groups+=" disk ext4"
	mkdir "$job"
	cp "$here"/{guest-init,guest-run,lab-ctl} "$job"
	{
		echo "ROLE=$guest NET=$net DRIVERS='$groups' PMEM=$pmem CXL=$cxl"
		echo "ADDR=$addr PEER=$other PEER_ROLE=$other_name"
		echo "RELEASE=$(quote "$release")"
		echo "CWD=$(quote "$PWD")"
	} >"$job/config"
	for name in "${shares[@]}"; do
		echo "share$i $name"
		i=$((i + 1))
	done >"$job/shares"
	{
		for name in $(compgen -e); do
			case $name in
			FI_* | LAB_* | PMEM*) echo "export $name=$(quote "${!name}")" ;;
			esac
		done
		for name in "${environment[@]}"; do
			echo "export ${name%%=*}=$(quote "${name#*=}")"
		done
	} >"$job/env"
	case $guest in
	main) echo "set -- $(quote "${command[@]}")" ;;
	peer) echo "set -- /bin/sh -c $(quote "$peer")" ;;
	esac >"$job/command"
}

# disk_of GUEST -- the disk image for it, if there is one
disk_of() {
	case $1 in
	main) echo "$disk" ;;
	peer) echo "$peer_disk" ;;
	esac
}

# has_memory -- a CXL device is there also if nothing is made of it
has_memory() {
	[ "$pmem" != none ] || [ -n "$cxl" ]
}

# nvdimm_of GUEST -- the file with its NVDIMM's contents
nvdimm_of() {
	local file=$nvdimm
	[ "$1" = main ] || file=$peer_nvdimm
	echo "${file:-$run/$1.nvdimm}"
}

# make_nvdimm GUEST -- make that file, unless it is there
make_nvdimm() {
	local file
	file=$(nvdimm_of "$1")
	[ ! -e "$file" ] || return 0
	if [ -n "$cxl" ]; then
		# The address decoders take multiples of 256 MiB.
		truncate -s 256M "$file"
	elif [ -e "$cache/nvdimm-$pmem" ]; then
		cp --sparse=always "$cache/nvdimm-$pmem" "$file"
	else
		# 256 MiB, and the label area
		truncate -s 258M "$file" && unformatted[$1]=yes
	fi || die "cannot create $file"
}

# keep_formatted GUEST -- its new NVDIMM has been formatted and nothing more: keep a
# copy for the next ones, since formatting takes a second in a guest
keep_formatted() {
	[ -n "${unformatted[$1]-}" ] || return
	cp --sparse=always "$(nvdimm_of "$1")" "$cache/nvdimm-$pmem.$$" &&
		mv "$cache/nvdimm-$pmem.$$" "$cache/nvdimm-$pmem"
}

# cxl_arguments GUEST -- a CXL host bridge with a root port, and the device in it
# shellcheck disable=SC2054 # as below
cxl_arguments() {
	local file
	file=$(nvdimm_of "$1")
	arguments+=(
		-machine "q35,cxl=on,cxl-fmw.0.targets.0=bridge,cxl-fmw.0.size=4G" -m "$mem,maxmem=$((mem + 8192))M"
		-object "memory-backend-file,id=nvdimm,share=on,size=$(stat -Lc %s "$file"),mem-path=$(comma "$file")"
		-object "memory-backend-file,id=label,share=on,size=1M,mem-path=$(comma "$file").label"
		-device pxb-cxl,bus_nr=12,bus=pcie.0,id=bridge
		-device cxl-rp,port=0,bus=bridge,id=rootport,chassis=0,slot=2
		-device cxl-type3,bus=rootport,memdev=nvdimm,lsa=label,id=cxl0
	)
}

# qemu_arguments GUEST -- sets the array arguments
# shellcheck disable=SC2054 # the commas belong to qemu's options
qemu_arguments() {
	local guest=$1 other=peer name file bytes i=0 kernel_options
	[ "$guest" = main ] || other=main
	kernel_options="console=ttyS0 loglevel=$([ -z "$console$verbose" ] && echo 4 || echo 7) panic=-1"
	# Nothing here wants the probing of absent hardware, nor self-tests and mitigations.
	kernel_options+=" no_timer_check tsc=reliable i8042.noaux i8042.nokbd"
	kernel_options+=" cryptomgr.notests mitigations=off apparmor=0 audit=0"
	kernel_options+=" noreplace-smp rodata=off init_on_alloc=0 nowatchdog"
	# A copy by one instruction is emulated byte by byte, or word by word.
	kernel_options+=" clearcpuid=rep_good"
	arguments=(
		-name "lab-$guest" -nodefaults -no-user-config -display none -no-reboot
		# max has RDRAND, which seeds the kernel's random numbers at once. It is without what costs
		# emulation much: copies by one instruction, a fifth level of page tables, protection of the kernel.
		# Linux makes no CXL regions where it knows that a hypervisor may ignore its wbinvd.
		-accel "tcg,thread=$([ -z "$icount" ] && echo multi || echo single)"
		-cpu "max,erms=off,la57=off,smap=off,smep=off$([ -z "$cxl" ] || echo ,hypervisor=off)" -smp "$cpus" -rtc base=utc
		-kernel "$vmlinux" -initrd "$initrd" -append "$kernel_options"
		-chardev "file,id=console,path=$guest.console" -serial chardev:console
		-device virtio-serial-pci
		-chardev "file,id=out,path=$guest.out,append=on" -device virtserialport,chardev=out,name=lab.out
		-chardev "pipe,id=ctl,path=$guest.ctl" -device virtserialport,chardev=ctl,name=lab.ctl
		-chardev "pipe,id=qmp,path=$guest.qmp" -mon chardev=qmp,mode=control
		-virtfs "local,mount_tag=root,path=$(comma "$root"),security_model=none,readonly=on,multidevs=remap"
		-virtfs "local,mount_tag=modules,path=$(comma "$modules"),security_model=none,readonly=on"
		-virtfs "local,mount_tag=job,path=$(comma "$run/$guest.job"),security_model=none,readonly=on"
	)
	[ -z "$icount" ] || arguments+=(-icount shift=0)
	for name in "${shares[@]}"; do
		arguments+=(-virtfs "local,mount_tag=share$i,path=$(comma "$name"),security_model=none,multidevs=remap")
		i=$((i + 1))
	done
	if ! has_memory; then
		arguments+=(-machine q35 -m "$mem")
	elif [ -n "$cxl" ]; then
		cxl_arguments "$guest"
	else
		file=$(nvdimm_of "$guest")
		bytes=$(stat -Lc %s "$file")
		case $persistence in
		adr) arguments+=(-machine q35,nvdimm=on,nvdimm-persistence=mem-ctrl) ;;
		eadr) arguments+=(-machine q35,nvdimm=on,nvdimm-persistence=cpu) ;;
		esac
		arguments+=(
			-m "$mem,slots=4,maxmem=$((mem + bytes / 1048576 + 4096))M"
			-object "memory-backend-file,id=nvdimm,share=on,size=$bytes,mem-path=$(comma "$file")"
			-device nvdimm,memdev=nvdimm,label-size=2M
		)
	fi
	file=$(disk_of "$guest")
	[ -z "$file" ] || arguments+=(
		-drive "if=none,id=disk,format=raw,file=$(comma "$file")" -device virtio-blk-pci,drive=disk)
	# Datagrams, since it does not matter then which of the two comes first or goes first.
	[ -z "$peer" ] || arguments+=(
		-netdev "dgram,id=net,local.type=unix,local.path=$guest.net,remote.type=unix,remote.path=$other.net"
		-device "virtio-net-pci,netdev=net,romfile=,mac=52:54:00:00:00:0$([ "$guest" = main ] && echo 2 || echo 1)")
}

# boot GUEST
boot() {
	local guest=$1 fd
	mkfifo "$run/$guest".{ctl,qmp}.{in,out}
	exec {fd}<>"$run/$guest.ctl.in"
	reply[$guest]=$fd
	write_job "$guest"
	start "$guest"
}

# start GUEST -- its qemu process and those that watch it
start() {
	local guest=$1 file arguments
	! has_memory || make_nvdimm "$guest"
	qemu_arguments "$guest"
	explain "booting $guest: qemu-system-x86_64 $(quote "${arguments[@]}")"
	touch "$run/$guest".{out,console}
	{
		while read -r line; do
			echo "$guest $line"
		done <"$run/$guest.ctl.out"
		echo "$guest - gone"
	} >&"$events" &
	# qemu holds the FIFO open from its first moment to its last, so that its end
	# is seen however it comes; it must not outlive this script, not even a SIGKILL.
	(
		cd "$run" || exit
		exec setpriv --pdeathsig KILL -- qemu-system-x86_64 "${arguments[@]}" \
			{fd}>"$guest.ctl.out" </dev/null >"$guest.qemu" 2>&1
	) &
	pid[$guest]=$!
	if [ -n "$pidfile" ]; then
		file=$pidfile
		[ "$guest" = main ] || file+=.$guest
		{ echo "${pid[$guest]}" >"$file.$$" && mv "$file.$$" "$file"; } || die "cannot write $file"
	fi
	(
		copy "$guest.out" "$([ "$guest" = main ] || echo "$guest: ")"
		echo "$guest - closed ${pid[$guest]}" >&"$events"
	) &
	copier[$guest]=$!
	[ -z "$console" ] || copy "$guest.console" "$guest console: " >&2 &
}

# copy FILE PREFIX -- of the current guest, as it comes, until its qemu has ended
copy() {
	if [ -z "$2" ]; then
		tail -c +1 -f -s 0.1 --pid="${pid[$guest]}" "$run/$1"
	else
		tail -c +1 -f -s 0.1 --pid="${pid[$guest]}" "$run/$1" | sed -u "s/^/$2/"
	fi
}
