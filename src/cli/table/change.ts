import { command, grouped } from '../command.ts';
import { boolFlag } from '../flags.ts';
import { jobName, jobs, contextFlags } from './flags.ts';

export const change = grouped('Change', [
  command({
    names: ['start'],
    summary: 'Bring up a job that is stopped or was never started',
    usage: '<job>...',
    about: 'In a cluster it takes back what `stop` did: the pods begin anew.',
    examples: [['jobman start 42', 'from the beginning, on the capacity it holds or on new']],
    flags: { jobName, ...contextFlags },
    args: [jobs],
    load: async () => (await import('../commands/change.ts')).start,
  }),
  command({
    names: ['stop'],
    summary: 'End the program on every worker and keep the capacity',
    usage: '<job>... [--release]',
    about:
      'Says what is still held and what that costs an hour. A job of a cluster is suspended: its pods are ended, and it holds\n' +
      'nothing.',
    examples: [
      ['jobman stop 42', 'the program ends, the TPU stays'],
      ['jobman stop 42 --release', 'the TPU goes too'],
    ],
    flags: { release: boolFlag('Let the capacity go as well'), jobName, ...contextFlags },
    args: [jobs],
    load: async () => (await import('../commands/change.ts')).stop,
  }),
  command({
    names: ['resume'],
    summary: 'Start again from the last checkpoint',
    usage: '<job>... [--workdir]',
    about: 'The program finds JOBMAN_STAGE one higher, and JOBMAN_RESUME_FROM. In a cluster it is the same as `start`.',
    examples: [
      ['jobman resume 42', 'after a stop on the same capacity, after a cancel on new'],
      ['jobman resume 42 --workdir', 'with the files of job.workdir as they are now'],
    ],
    flags: {
      workdir: boolFlag('Copy job.workdir again; otherwise the job runs the copy that it has'),
      jobName,
      ...contextFlags,
    },
    args: [jobs],
    load: async () => (await import('../commands/change.ts')).resume,
  }),
  command({
    names: ['rerun'],
    summary: 'Start again from the beginning',
    usage: '<job>...',
    about:
      'In a cluster it is a new Job of the same spec, called train-2 after train; also of a job that the cluster has\n' +
      'forgotten.',
    examples: [
      ['jobman rerun 42', 'stage 0 again: from nothing, or from job.resume_from'],
      ['jobman rerun -j listing', 'a job of a cluster, as listing-2'],
    ],
    flags: { jobName, ...contextFlags },
    args: [jobs],
    load: async () => (await import('../commands/change.ts')).rerun,
  }),
  command({
    names: ['cancel', 'kill'],
    summary: 'Stop for good and release the capacity',
    usage: '<job>...',
    about: 'In a cluster the job is deleted; its logs and history stay here.',
    examples: [['jobman cancel 42 43', 'several at once; each gets its own answer']],
    flags: { jobName, ...contextFlags },
    args: [jobs],
    load: async () => (await import('../commands/change.ts')).cancel,
  }),
  command({
    names: ['delete', 'rm'],
    summary: 'Cancel, and take off the list once the capacity is seen gone',
    usage: '<job>... [--force] | --all [--own]',
    about:
      'Asks first when a TPU job holds capacity and was not cancelled before. Without a terminal it deletes such a job only\n' +
      'with --yes. A job that has ended and holds nothing leaves the list at once. What is missing of its logs is copied\n' +
      'for five more minutes where its machine can still be read.\n' +
      'A job of a cluster is deleted there without a question, and reported once it is seen gone with its pods.\n' +
      '--all deletes every Job of the namespace, also those of other users and tools. It lists them and asks first.',
    examples: [
      ['jobman delete 42', 'off the list when its TPU is seen gone'],
      ['jobman delete 42 --yes', 'without a question'],
      ['jobman delete 42 --force --yes', 'off the list now; what it held is recorded as a stray (jobman gc)'],
      ['jobman delete -j listing', 'a job of a Kubernetes cluster'],
      ['jobman delete --all --own --yes', 'all of yours in the namespace'],
    ],
    flags: {
      force: boolFlag('Do not wait for a look; leave a recorded stray'),
      all: boolFlag('Every Job of the namespace of the cluster'),
      own: boolFlag('With --all: only those that are yours'),
      jobName,
      ...contextFlags,
    },
    args: [jobs],
    load: async () => (await import('../commands/change.ts')).deleteJobs,
  }),
  command({
    names: ['clean'],
    summary: 'Remove the files of settled jobs',
    usage: '<job>... | --all',
    about:
      '--all asks first. Without a terminal it is not done unless --yes says so. Of a job that its cluster has forgotten, the\n' +
      'history goes too: it is all that was left.',
    examples: [
      ['jobman clean 42', 'its logs and copies are gone; its history stays'],
      ['jobman clean --all --yes', 'those of all your settled jobs'],
    ],
    flags: { all: boolFlag('All of your settled jobs'), jobName, ...contextFlags },
    args: [jobs],
    load: async () => (await import('../commands/change.ts')).clean,
  }),
  command({
    names: ['gc'],
    summary: 'List what may be left behind in a cloud; with --yes release it',
    usage: '[job|name]... [--yes]',
    about:
      'A stray is a TPU that carries the label of this record and belongs to no job any more: a forced delete leaves one, or a\n' +
      'reply that came late. Without --yes nothing is changed. Other TPUs are listed below and never\n' +
      'touched: those of `tpu apply` without a job, of another jobman, and without a label. `tpu delete` deletes one.',
    examples: [
      ['jobman gc', 'each stray and what the cloud says of it'],
      ['jobman gc --yes', 'release all of them'],
      ['jobman gc 42 --yes', 'only of what job 000042 left'],
    ],
    exitCodes: { 1: 'one could not be released', 5: 'no project answered; if at least one did, the code is 0' },
    args: [{ name: 'name', summary: 'The job that left it, or its name', many: true }],
    load: async () => (await import('../commands/tpus.ts')).gc,
  }),
]);
