# ka.sh: which TPU, where it is, and where everything is kept. Of the test's own, as every person's is their own.
if [ -n "$1" ]; then
	export VM_NAME=$1
else
	export VM_NAME=lab-v4-16-1
fi
export ZONE=${TEST_ZONE:-us-central2-b}
export DATA_ROOT=${TEST_DATA_ROOT#/}
