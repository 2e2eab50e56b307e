# config.sh: variables of run_remote.sh.
export OWN_CONDA_ENV_NAME=NNX
export CONDA_PY_PATH=python3
export TASKNAME=vit
export CONFIG=base
export batch=8
export lr=0.1
export ep=3
