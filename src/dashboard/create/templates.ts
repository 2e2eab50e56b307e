// Templates of manifests that need no file of the person's machine, because a browser sends none.

export interface Template {
  readonly name: string;
  readonly text: string;
}

export const templates: readonly [Template, ...Template[]] = [
  {
    name: 'A TPU, with a program from git',
    text: `# A job on a Cloud TPU. The command gets its program from git, because a browser sends no files.
job:
  name: my-experiment
  checkpoint_dir: ~/bucket/checkpoints      # each job has its own folder there: $JOBMAN_CHECKPOINT_DIR

tpu:
  project: my-project                       # your Google Cloud project, or emulator for the free TPU emulator
  accelerator: v4-8
  zone: us-central2-b
  pricing: spot                             # can be preempted; the job then resumes on a new TPU

gcsfuse:
  bucket_name: my-bucket                    # in the region of the zone
  mount_path: ~/bucket

command:
  run: |
    git clone --depth 1 https://github.com/me/my-project code
    cd code
    python3 train.py
`,
  },
  {
    name: 'The TPU emulator, with the whole program here',
    text: `# A first job on the TPU emulator, which is free and needs no account. It counts, and after a preemption continues
# from its last checkpoint. Try it: jobman emulator preempt ID
job:
  name: count
  tags: [example]
  checkpoint_dir: ~/bucket/checkpoints

tpu:
  project: emulator
  accelerator: v4-16                        # 8 chips, two workers
  zone: us-central2-b
  pricing: spot

gcsfuse:
  bucket_name: count-example
  mount_path: ~/bucket

command:
  run: |
    step=0
    if [ -n "$JOBMAN_RESUME_FROM" ]; then step=$(cat "$JOBMAN_RESUME_FROM"); fi
    while [ "$step" -lt 60 ]; do
      step=$((step + 1))
      echo "step $step loss 0.$((100 - step))"
      echo "$step" > "$JOBMAN_CHECKPOINT_DIR/step-$step"
      sleep 1
    done
`,
  },
  {
    name: 'The machine of the controller',
    text: `# A job on the machine that runs the controller of jobman.
job:
  name: my-job

local:
  workdir: /tmp                             # an existing folder of that machine

command:
  run: python3 --version

recovery: "loop: failures"                  # after a failure the job starts again
`,
  },
];
