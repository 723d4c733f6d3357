#!/bin/bash
GPUS_PER_NODE=8
NNODES=${SLURM_NNODES:-"2"}
WORLD_SIZE=$(($GPUS_PER_NODE*$NNODES))
TP=2
MODEL_ARGS=(
    --num-layers 8 --hidden-size 1024
    --num-attention-heads 16   # of 64
    --seq-length 2048 --max-position-embeddings 2048
)
PARALLEL="--tensor-model-parallel-size $TP \
    --pipeline-model-parallel-size 2"
torchrun --nproc_per_node $GPUS_PER_NODE --nnodes $NNODES pretrain_gpt.py ${MODEL_ARGS[@]} \
    $PARALLEL --micro-batch-size 1 --global-batch-size 32 --vocab-size 32000 --bf16 \
    --use-distributed-optimizer
