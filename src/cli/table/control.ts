import { command, grouped } from '../command.ts';
import { boolFlag, valueFlag } from '../flags.ts';
import { parseBudget } from '../parse.ts';
import { contextFlags, continueFlags, jobName, jobs } from './flags.ts';

const budget = valueFlag('Set job.budget, for this start and later ones', 'amount', parseBudget);
const newBudgetHelp = 'The whole `job.budget` is granted again: only what the job costs from now on counts.';
const budgetHelp = `${newBudgetHelp} \`--budget\` changes the amount.`;

export const control = grouped('Control', [
  command({
    names: ['start'],
    summary: 'Start a job that was stopped or has not started yet',
    usage: '<job>...',
    about: `For a job in a cluster it undoes \`stop\`: new pods start.\n\n${newBudgetHelp}`,
    examples: [['jobman start 42', 'from the beginning, on kept or new capacity']],
    flags: { jobName, ...contextFlags },
    args: [jobs],
    load: async () => (await import('../commands/change.ts')).start,
  }),
  command({
    names: ['stop'],
    summary: 'Stop the program on every worker and keep the capacity',
    usage: '<job>... [--release]',
    about:
      'Prints the capacity that the job keeps and what it costs per hour. A job in a cluster is suspended: its pods ' +
      'end, and it keeps no capacity.',
    examples: [
      ['jobman stop 42', 'stop the program, keep the TPU'],
      ['jobman stop 42 --release', 'release the TPU too'],
    ],
    flags: { release: boolFlag('Also release the capacity'), jobName, ...contextFlags },
    args: [jobs],
    load: async () => (await import('../commands/change.ts')).stop,
  }),
  command({
    names: ['resume'],
    summary: 'Start a job again from its last checkpoint',
    usage: '<job>... [--workdir] [--budget AMOUNT]',
    about:
      'JOBMAN_STAGE increases by one, and JOBMAN_RESUME_FROM names the checkpoint. For a job in a cluster, ' +
      '`resume` is the same as `start`.\n\n' +
      budgetHelp,
    examples: [
      ['jobman resume 42', 'on the kept capacity after a stop, on new capacity after a cancel'],
      ['jobman resume 42 --workdir', 'with the current files of job.workdir'],
      ["jobman resume 42 --budget '80 USD'", 'with a higher budget'],
    ],
    flags: {
      workdir: boolFlag('Copy job.workdir again instead of using the existing copy'),
      budget,
      jobName,
      ...contextFlags,
    },
    args: [jobs],
    load: async () => (await import('../commands/change.ts')).resume,
  }),
  command({
    names: ['rerun'],
    summary: 'Start a job again from the beginning',
    usage: '<job>... [--budget AMOUNT]',
    about:
      'For a job in a cluster it creates a new Job with the same spec, such as train-2 after train. The first ' +
      'Job need not exist any more.\n\n' +
      budgetHelp,
    examples: [
      ['jobman rerun 42', 'stage 0 again: without a checkpoint, or from job.resume_from'],
      ["jobman rerun 42 --budget '80 USD'", 'with a higher budget'],
      ['jobman rerun -j listing', 'a job in a cluster, as listing-2'],
    ],
    flags: { budget, jobName, ...contextFlags },
    args: [jobs],
    load: async () => (await import('../commands/change.ts')).rerun,
  }),
  command({
    names: ['continue'],
    summary: 'Start a job if it is not active, and follow it',
    usage: '<job> [--cmd-only]',
    about: 'Runs in the foreground and skips the setup steps that are done. Ctrl-C detaches: the job keeps running.',
    examples: [
      ['jobman continue 42', 'request capacity, set up, run'],
      ['jobman continue 42 --cmd-only', 'only the command, on workers that are ready'],
    ],
    exitCodes: { 0: 'the job succeeded', 1: 'the job failed, was stopped or was cancelled' },
    flags: continueFlags,
    args: [jobs],
    load: async () => (await import('../commands/change.ts')).continueJob,
  }),
  command({
    names: ['cancel', 'kill'],
    summary: 'Stop a job and release its capacity',
    usage: '<job>... | --all',
    about:
      '--all lists your jobs that are unfinished or hold capacity, and asks first.\n\n' +
      'For a job in a cluster it deletes the Job; jobman keeps its logs and history.',
    examples: [
      ['jobman cancel 42 43', 'several jobs; each gets its own answer'],
      ['jobman cancel --all --yes', 'every job that runs, waits or holds capacity; no question'],
    ],
    flags: { all: boolFlag('All your jobs that are unfinished or hold capacity'), jobName, ...contextFlags },
    args: [jobs],
    load: async () => (await import('../commands/change.ts')).cancel,
  }),
  command({
    names: ['delete', 'rm'],
    summary: 'Cancel a job and remove it from the list once its capacity is released',
    usage: '<job>... [--force] | --all [--own]',
    about:
      'If a TPU job still holds capacity, the command asks first; without a terminal it needs --yes. Before the job ' +
      'leaves the list, jobman copies the rest of its logs, for at most five minutes.\n\n' +
      '--all deletes all your finished jobs. If a cluster is configured, it also deletes every Job of the ' +
      'namespace, including those of other users and tools. It lists them and asks first. With --namespace or ' +
      '--context, it deletes Jobs of the cluster only.\n\n' +
      'For a single job in a cluster the command does not ask. It returns once the pods are deleted.',
    examples: [
      ['jobman delete 42', 'remove the job once its TPU is released'],
      ['jobman delete 42 --yes', 'without a question'],
      ['jobman delete 42 --force --yes', 'remove the job now, without a question'],
      ['jobman delete --all', 'all your finished jobs'],
      ['jobman delete --all --own --yes -n vision', 'all your jobs in a namespace in a cluster'],
    ],
    flags: {
      force: boolFlag('Remove the job now; its TPU may remain as an orphan (jobman gc)'),
      all: boolFlag('All your finished jobs, or every Job of the namespace of the cluster'),
      own: boolFlag('With --all: only your own Jobs of the namespace'),
      jobName,
      ...contextFlags,
    },
    args: [jobs],
    load: async () => (await import('../commands/change.ts')).deleteJobs,
  }),
  command({
    names: ['clean'],
    summary: 'Remove the files of finished jobs',
    usage: '<job>... | --all',
    about:
      '--all lists the jobs and asks first; without a terminal it needs --yes. If the cluster has deleted the Job, the history is ' +
      'removed too. Files on your own machines (`hosts`) and on TPUs that are kept are removed if the machine answers.',
    examples: [
      ['jobman clean 42', 'remove its logs and copies; keep its history'],
      ['jobman clean --all --yes', 'the files of all your finished jobs'],
    ],
    flags: { all: boolFlag('All your finished jobs'), jobName, ...contextFlags },
    args: [jobs],
    load: async () => (await import('../commands/change.ts')).clean,
  }),
  command({
    names: ['gc'],
    summary: 'List orphaned TPUs; with --yes release them',
    usage: '[job|name]... [--yes]',
    about:
      'An orphan is a TPU that this jobman created and no job owns, for example after a forced delete or a late ' +
      'answer of the cloud.\n\n' +
      'Below the orphans it lists TPUs that it never deletes: TPUs of `tpu apply` without a job (`tpu delete` ' +
      'deletes them), TPUs of another jobman, and TPUs without a label.',
    examples: [
      ['jobman gc', "each orphan and the cloud's answer about it"],
      ['jobman gc --yes', 'release all of them'],
      ['jobman gc 42 --yes', 'only the orphans of job 000042'],
    ],
    exitCodes: {
      1: 'an orphan could not be released',
      5: 'no project answered; if at least one answered, the code is 0',
    },
    args: [{ name: 'name', summary: 'A job that left orphans, or the name of an orphan', many: true }],
    load: async () => (await import('../commands/tpus.ts')).gc,
  }),
]);
