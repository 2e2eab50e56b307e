// Commands and flags of other tools, with the nearest thing in jobman. The spelling check finds mistyped names only.

/** By the names, with `|` between them. */
export const foreignCommandHints: Readonly<Record<string, string>> = {
  'sbatch|bsub|qsub|launch': '`jobman create job.yaml` creates a job and starts it.',
  srun: '`jobman run -- CMD` runs a command as a local job, `jobman create job.yaml --follow` a manifest.',
  squeue: '`jobman list` lists the jobs, `jobman queue` those that wait.',
  scancel: '`jobman cancel 1` stops a job and releases its TPU, `jobman stop 1` keeps the TPU.',
  sacct: '`jobman list --all` lists all jobs, `jobman history 1` the events of one.',
  'qstat|jobs': '`jobman list` lists the jobs.',
  qdel: '`jobman cancel 1` stops a job and releases its capacity.',
  'inspect|info': '`jobman show 1` shows one job; --json prints everything about it.',
  tail: '`jobman logs 1 -f` follows the output of a job, `jobman logs 1 --tail 20` prints its last lines.',
  attach: '`jobman logs 1 -f` follows the output of a job; Ctrl-C detaches, and the job keeps running.',
  follow: '`jobman logs 1 -f` follows the output of a job.',
  events: '`jobman history 1` lists the events of a job.',
  'scp|rsync|download|upload|pull':
    '`jobman cp 1:results ./` copies from the workers of a job, `jobman cp data 1:` to them.',
  'push|sync': 'Files travel with the job: job.workdir and job.files in the manifest, or `jobman cp data 1:` later.',
  shell: '`jobman ssh 1` opens a shell on a worker, `jobman exec -j train -it -- sh` in a pod.',
  apply: '`jobman create job.yaml` creates a job and starts it; with --dry-run it only prints the plan.',
  up: '`jobman create job.yaml` creates a job and starts it, `jobman start 1` starts a stopped one.',
  down: '`jobman cancel 1` stops a job and releases its TPU, `jobman stop 1` keeps the TPU.',
  remove: '`jobman delete 1` removes a job from the list, `jobman clean 1` removes the files of a finished job.',
  'restart|retry': '`jobman resume 1` continues from the last checkpoint, `jobman rerun 1` starts over.',
  pause: '`jobman stop 1` stops the program and keeps its TPU; `jobman resume 1` continues.',
  watch: '`jobman list --watch` keeps the list of jobs up to date, `jobman logs 1 -f` follows the output of one.',
  plan: '`jobman create job.yaml --dry-run` prints the plan and creates nothing.',
  'check|lint': '`jobman validate job.yaml` checks a manifest.',
  diagnose: '`jobman doctor` checks the installation, `jobman why 1` explains the phase of a job.',
  explain: '`jobman why 1` explains the phase of a job, `jobman schema` prints the keys of manifests.',
  config: '`jobman settings` shows the settings.',
  configure: '`jobman settings` shows the settings, `jobman settings set tpu.project my-project` changes one.',
  'costs|spend|sreport':
    '`jobman cost` shows what jobs have cost, `jobman tpus` the price of all TPUs in your projects.',
  'price|pricing':
    '`jobman prices` lists prices; `jobman create job.yaml --dry-run` shows the price of a job, `jobman tpus` those of your TPUs.',
  'quotas|limits': '`jobman quota` shows the TPU quotas of your projects, what uses them, and what is left.',
  'gpus|accelerators|show-gpus|gpu':
    'jobman requests TPUs: `jobman validate job.yaml` lists the valid types for a wrong tpu.accelerator. GPUs are available in Kubernetes: `jobman submit --gpus 1`.',
  nodes: '`jobman tpus` lists the TPUs in your projects, `jobman show 1` the workers of a job.',
  workers: '`jobman show 1` lists the workers of a job.',
  edit: '`jobman create job.yaml --set key=value` creates a job with one key changed; `jobman settings` is for settings.',
  sweep: 'docs/sweeps.md: in a shell loop, `jobman create job.yaml --set command.lr=0.1` creates one job per value.',
  auth: '`jobman login` logs in to a server, and without an address checks the login to Google Cloud.',
  'ui|web':
    '`jobman dashboard` shows the jobs in a browser; `jobman list --watch` keeps a list up to date in a terminal.',
  'upgrade|update|uninstall|install':
    'In a clone of jobman, `git pull && npm install` updates it; docs/uninstalling.md explains how to remove it. `jobman version` prints the version.',
  secrets: '`jobman secret` lists and stores secrets; the manifest names them in job.secrets (docs/secrets.md).',
  'notifications|mail|alerts': '`jobman notify` shows who is notified of what; docs/notifications.md has the settings.',
  'tag|tags|label': 'Tags are in the manifest (job.tags: [vit]); `jobman list --tag vit` lists the jobs with that tag.',
  rename: 'A job keeps its name. `jobman create job.yaml --name vit` creates a job with another name.',
  preempt: 'docs/emulator.md explains how to preempt a simulated TPU; `jobman emulator status` lists the TPUs.',
  daemon: '`jobman controller start` starts the controller in the background; commands start it when it is needed.',
  'docs|manual|man': '`jobman --help` lists the commands; the folder docs/ of jobman has the manual.',
  prune: '`jobman clean --all` removes the files of finished jobs, `jobman gc` TPUs that no job uses.',
  bash: '`jobman ssh 1` opens a shell on a worker, `jobman completion bash` prints the completion of commands.',
  'hold|release': '`jobman stop 1` stops a job and keeps its TPU, `jobman stop 1 --release` releases it.',
  'checkpoint|checkpoints':
    '`jobman show 1` shows the newest checkpoint and its folder, `jobman resume 1` continues from it (docs/checkpoints.md).',
  regions: '`jobman zones` shows the answers of each zone to your jobs.',
  metrics: '`jobman show 1` shows the progress of a job, `jobman logs 1 -f` follows its output.',
  projects:
    '`jobman tpus` lists the TPUs in your projects; `jobman settings set tpu.project my-project` sets the default.',
  'new|example|examples|template': '`jobman init` writes a commented manifest; configs/ has examples.',
  'emulator reset': '`jobman emulator clear` removes all faults; `jobman emulator stop` stops the emulator.',
  'emulator logs':
    '`jobman emulator status` shows the TPUs and faults, `jobman controller logs` the requests of jobman.',
};

export function foreignCommandHint(name: string): string | undefined {
  return Object.entries(foreignCommandHints).find(([names]) => names.split('|').includes(name))?.[1];
}

/** Flags of kubectl, Docker, Slurm and others, with our names. The first that a command has is suggested. */
const flagEquivalents: Readonly<Record<string, readonly string[]>> = {
  '--name': ['--job-name'],
  '--lines': ['--tail'],
  '--last': ['--tail'],
  '--limits': ['--memory'],
  '--requests': ['--cpu'],
  '--cpus': ['--cpu'],
  '--mem': ['--memory'],
  '--time': ['--timeout'],
  '--entrypoint': ['--command'],
  '--interactive': ['--stdin'],
  '--pods': ['--all-pods'],
  '--filename': ['--file', '--config'],
  '--file': ['--config'],
  '--state': ['--phase'],
  '--status': ['--phase'],
  '--format': ['--output json'],
  '--no-color': ['--color never'],
  '--no-colour': ['--color never'],
  '--limit': ['--tail'],
  '--head': ['--tail'],
  '--accelerator': ['--set tpu.accelerator=VALUE'],
  '--zone': ['--set tpu.zone=VALUE'],
  '--lr': ['--set command.lr=VALUE'],
  '-a': ['--all'],
  '-c': ['--container'],
  '-e': ['--env'],
  '-i': ['--stdin'],
  '-w': ['--watch'],
};

/** Of the flags that the command has: `--color never` for `--no-color`. */
export function equivalentFlag(flag: string, names: readonly string[]): string | undefined {
  const known = Object.hasOwn(flagEquivalents, flag) ? (flagEquivalents[flag] ?? []) : [];
  return known.find((other) => names.includes(other.split(' ')[0] ?? ''));
}
