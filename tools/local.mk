# SPDX-License-Identifier: BSD-2-Clause
# local.mk -- what developers run, and the steps of runtests; %D% is this directory

EXTRA_DIST += \
	%D%/abi.txt \
	%D%/analyse \
	%D%/check-abi \
	%D%/check-messages \
	%D%/check-reproducible \
	%D%/circles.awk \
	%D%/count-instructions \
	%D%/coverage \
	%D%/layers \
	%D%/names.awk \
	%D%/setup.sh \
	%D%/version \
	%D%/with-systemd

# What steps have in common.
EXTRA_DIST += \
	%D%/lib/check.sh \
	%D%/lib/docs.sh \
	%D%/lib/functional.sh \
	%D%/lib/gone.sh \
	%D%/lib/lab.sh \
	%D%/lib/mpi.sh \
	%D%/lib/report.sh \
	%D%/lib/say.sh \
	%D%/lib/scripts.sh \
	%D%/lib/step.sh \
	%D%/lib/stress.sh

EXTRA_DIST += \
	%D%/steps/analyse \
	%D%/steps/build \
	%D%/steps/cp_tcp \
	%D%/steps/debian13 \
	%D%/steps/demo_tcp \
	%D%/steps/docs \
	%D%/steps/fio_tcp \
	%D%/steps/format \
	%D%/steps/functional_rdm \
	%D%/steps/functional_tcp \
	%D%/steps/functional_ways \
	%D%/steps/fuzz \
	%D%/steps/gone_programs \
	%D%/steps/gone_rdm \
	%D%/steps/gone_tcp \
	%D%/steps/keys_link \
	%D%/steps/keys_tcp \
	%D%/steps/kv_tcp \
	%D%/steps/lab_adr \
	%D%/steps/lab_bench \
	%D%/steps/lab_cxl \
	%D%/steps/lab_eadr \
	%D%/steps/lab_files \
	%D%/steps/lab_native \
	%D%/steps/lab_peer \
	%D%/steps/lab_plug \
	%D%/steps/lab_rdm \
	%D%/steps/layers \
	%D%/steps/leaks \
	%D%/steps/live \
	%D%/steps/metrics_tcp \
	%D%/steps/model \
	%D%/steps/mpi_tcp \
	%D%/steps/package \
	%D%/steps/pingpong_tcp \
	%D%/steps/programs \
	%D%/steps/readme \
	%D%/steps/remotelog_tcp \
	%D%/steps/report_tcp \
	%D%/steps/rpc_bench_tcp \
	%D%/steps/rpc_tcp \
	%D%/steps/rs_tcp \
	%D%/steps/sanitize_address \
	%D%/steps/sanitize_thread \
	%D%/steps/scale_tcp \
	%D%/steps/services \
	%D%/steps/settings \
	%D%/steps/shmem_tcp \
	%D%/steps/signals_tcp \
	%D%/steps/stress_tcp \
	%D%/steps/tx_tcp \
	%D%/steps/unit \
	%D%/steps/versions_tcp
