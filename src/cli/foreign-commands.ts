// Commands of other tools, with their names in jobman. The spelling check finds mistyped commands only.

const commandHints: Readonly<Record<string, string>> = {
  sbatch: '`jobman create job.yaml` creates a job and starts it.',
  srun: '`jobman create job.yaml --follow` creates a job and shows what it prints.',
  squeue: '`jobman list` shows the jobs, `jobman why 1` what one of them waits for.',
  scancel: '`jobman cancel 1` ends a job for good, `jobman stop 1` so that it may go on later.',
  sinfo: '`jobman zones` shows what each zone has answered to your jobs, `jobman tpus` which TPUs exist.',
  sacct: '`jobman list --all` shows all jobs, `jobman history 1` all that happened to one.',
  bsub: '`jobman create job.yaml` creates a job and starts it.',
  qsub: '`jobman create job.yaml` creates a job and starts it.',
  qstat: '`jobman list` shows the jobs.',
  qdel: '`jobman cancel 1` ends a job for good.',
  get: '`jobman list` shows the jobs, `jobman show 1` one of them.',
  inspect: '`jobman show 1` shows all of one job; with --json for programs.',
  info: '`jobman show 1` shows all of one job.',
  tail: '`jobman logs 1 -f` follows what a job prints, `jobman logs 1 --tail 20` shows its last lines.',
  log: '`jobman logs 1` shows what a job printed.',
  attach: '`jobman logs 1 -f` follows what a job prints; Ctrl-C leaves, and the job goes on.',
  follow: '`jobman logs 1 -f` follows what a job prints.',
  events: '`jobman history 1` tells all that happened to a job.',
  scp: '`jobman cp 1:results ./` copies from the workers of a job, `jobman cp data 1:` to them.',
  rsync: '`jobman cp 1:results ./` copies from the workers of a job, `jobman cp data 1:` to them.',
  download: '`jobman cp 1:results ./` copies from the workers of a job.',
  upload: '`jobman cp data 1:` copies to the workers of a job.',
  shell: '`jobman ssh 1` opens a shell on a worker, `jobman exec -j train -it -- sh` one in a pod.',
  apply:
    '`jobman create job.yaml` creates a job and starts it; `jobman create job.yaml --dry-run` only shows what would be asked for.',
  launch: '`jobman create job.yaml` creates a job and starts it.',
  up: '`jobman create job.yaml` creates a job and starts it, `jobman start 1` brings a stopped one up.',
  down: '`jobman stop 1 --release` ends the program and releases its TPU, `jobman cancel 1` for good.',
  remove:
    '`jobman delete 1` ends a job and takes it off the list, `jobman clean 1` removes the files of one that has ended.',
  restart: '`jobman resume 1` goes on from the last checkpoint, `jobman rerun 1` begins from the start.',
  retry: '`jobman resume 1` goes on from the last checkpoint, `jobman rerun 1` begins from the start.',
  pause: '`jobman stop 1` ends the program and keeps its TPU; `jobman resume 1` goes on.',
  top: '`jobman list --watch` shows the jobs as they change.',
  watch: '`jobman list --watch` shows the jobs as they change, `jobman logs 1 -f` what one prints.',
  plan: '`jobman create job.yaml --dry-run` shows what would be asked for, and stores nothing.',
  check: '`jobman validate job.yaml` checks a manifest.',
  lint: '`jobman validate job.yaml` checks a manifest.',
  doctor: '`jobman controller status` tells whether the controller runs, `jobman why 1` what keeps a job.',
  config: '`jobman settings` shows the settings.',
  cost: '`jobman show 1` says what a job costs, `jobman tpus` what all TPUs of your projects cost.',
  edit: '`jobman create job.yaml --set key=value` creates a job with one key changed; `jobman settings` is for settings.',
};

export function foreignCommandHint(word: string): string | undefined {
  return Object.hasOwn(commandHints, word) ? commandHints[word] : undefined;
}

/** Flags of kubectl, Docker and Slurm, with our names for them. */
const flagEquivalents: Readonly<Record<string, readonly string[]>> = {
  name: ['--job-name'],
  lines: ['--tail'],
  limits: ['--memory'],
  requests: ['--cpu'],
  cpus: ['--cpu'],
  mem: ['--memory'],
  time: ['--timeout'],
  entrypoint: ['--command'],
  interactive: ['--stdin'],
  pods: ['--all-pods'],
  filename: ['--file'],
};

/** A command has at most one of the returned flags. */
export function equivalentFlags(flag: string): readonly string[] {
  return Object.hasOwn(flagEquivalents, flag) ? (flagEquivalents[flag] ?? []) : [];
}

/** For the test that compares the hints with the existing commands. */
export const foreignCommands: readonly string[] = Object.keys(commandHints);
