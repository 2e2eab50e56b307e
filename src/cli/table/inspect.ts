import { phases } from '../../core/decide/phase.ts';
import { command, grouped } from '../command.ts';
import { boolFlag, valueFlag, stringFlag } from '../flags.ts';
import { parseDuration } from '../parse.ts';
import { jobName, jobs, listFlags, logsFlags, contextFlags, queueFlags, tpusFlags, verdictExitCodes } from './flags.ts';

export const inspect = grouped('Look', [
  command({
    names: ['list', 'ls', 'ps'],
    summary: 'Jobs: all that are not settled and the 50 that settled last, the newest first',
    usage: '[--user u] [--phase p]... [--tag t] [--name n] [--all] [-n namespace | -A] [--watch]',
    about:
      'A job is settled once it has succeeded, failed, been stopped or been cancelled: nothing more happens to it until\n' +
      `you say so. --phase takes one of ${phases.slice(0, 6).join(', ')},\n` +
      `${phases.slice(6).join(', ')}.\n` +
      'A narrow terminal loses columns in this order: HOST0 IP, USER (if all are of one), ZONE, AGE, ACCELERATOR.\n' +
      'With --watch keys lead to one job and back: j and k choose it, Enter shows it, w says why, l follows its log, ? helps.',
    examples: [
      ['jobman list', 'what there is'],
      ['jobman list --phase failed --phase recovering --name "vit-*"', 'some of it'],
      ['jobman list --all --json | jq -r .id', 'for programs: one object a line'],
      ['jobman list -A', 'with the Jobs of every namespace of the cluster'],
      ['jobman list --watch', 'redrawn when something changes; q leaves'],
    ],
    flags: listFlags,
    load: async () => (await import('../commands/list.ts')).list,
  }),
  command({
    names: ['show', 'details', 'describe', 'status'],
    summary: 'One job: where it is, its attempts, its workers',
    usage: '<job>...',
    examples: [
      ['jobman show 42', 'the job 000042'],
      ['jobman details -j vit-l16', 'the same by its name'],
      ['jobman show 42 --json | jq .attempts', 'its attempts, for programs'],
      ['jobman details -j listing --namespace vision', 'a job of a Kubernetes cluster, with its pods and events'],
    ],
    flags: { jobName, ...contextFlags },
    args: [jobs],
    load: async () => (await import('../commands/show.ts')).show,
  }),
  command({
    names: ['logs'],
    summary: 'What the workers print',
    usage: '<job> [-f] [-w worker] [--step name] [--attempt n] [--tail lines] [--grep pattern] [--first-error]',
    about:
      "Each line has its worker's number in front, unless --worker names one. On a terminal equal lines of several workers\n" +
      'are shown once and long lines are cut. Control characters are made visible; --raw prints the bytes as they are.',
    examples: [
      ['jobman logs 42 -f', 'follow all workers, over preemptions, until the job has ended'],
      ['jobman logs 42 -w 3 --tail 100', 'the last hundred lines of worker 3'],
      ['jobman logs 42 --step docker', 'what a setup step printed'],
      ['jobman logs 42 --step job', "the job's own log; `tpu` is what was asked of the cloud"],
      ['jobman logs 42 --first-error', 'what went wrong before everything that followed from it'],
      ['jobman logs 42 --attempt 1 --grep "loss|nan"', 'lines of an earlier attempt'],
    ],
    flags: logsFlags,
    args: [jobs],
    load: async () => (await import('../commands/logs.ts')).logs,
  }),
  command({
    names: ['history'],
    summary: 'Every event of a job',
    usage: '<job>... [--timeline]',
    examples: [
      ['jobman history 42', 'one line for each thing that happened'],
      ['jobman history 42 --timeline', 'and its life as one line above'],
      ['jobman history 42 --json', 'one object for each event'],
    ],
    flags: { timeline: boolFlag('Draw the attempts along an axis of time'), jobName, ...contextFlags },
    args: [jobs],
    load: async () => (await import('../commands/history.ts')).history,
  }),
  command({
    names: ['why'],
    summary: 'Why a job is in its phase, on what evidence, and what comes next',
    usage: '<job>... [--explain]',
    examples: [
      ['jobman why 42', 'one sentence, what it rests on, and when the next look is'],
      ['jobman why 42 --explain', 'and the rule of the controller that applied last'],
    ],
    flags: { explain: boolFlag('Also name the situation that the controller saw last'), jobName, ...contextFlags },
    args: [jobs],
    load: async () => (await import('../commands/show.ts')).why,
  }),
  command({
    names: ['wait'],
    summary: 'Wait until jobs have ended; the exit code is their verdict',
    usage: '<job>... [--timeout 2h]',
    about:
      'On a terminal it shows what is waited for; elsewhere each change is a line on standard error. -q is silent.',
    examples: [
      ['jobman wait 42 && jobman create next.yaml', 'the next job once this one has succeeded'],
      ['jobman wait 42 43 --timeout 8h', 'at most eight hours for both'],
    ],
    exitCodes: { ...verdictExitCodes, 1: 'one failed, was stopped or was cancelled, or the time was over' },
    flags: {
      timeout: valueFlag('Give up after this time; the job goes on', 'time', parseDuration),
      jobName,
      ...contextFlags,
    },
    args: [jobs],
    load: async () => (await import('../commands/wait.ts')).wait,
  }),
  command({
    names: ['tpus'],
    summary: 'What exists in the clouds, whose it is, how long idle, and what it costs',
    usage: '[--all] [--zone z] [--project p] | --forget project',
    about:
      'Every node and queued resource in the projects and zones that the settings, the jobs and the flags name; where no\n' +
      "zone is named, in all of the project. STATE is Google's word. WHOSE is the `owner` that tpu.metadata names, else the\n" +
      'user of its job, or the user who ran `tpu apply`; `stray` (of this record, and no job claims it: jobman gc), another\n' +
      'jobman, or nobody. IDLE is how long it is ready without a command of ours; `?` where that is not known. What has cost\n' +
      'most for nothing comes first.\n' +
      'A narrow terminal loses columns in this order: PRICING, READY, JOB, ZONE, TYPE.',
    examples: [
      ['jobman tpus', 'all that is in use, and all that is not'],
      ['jobman tpus --all --project my-project', 'in every zone of a project'],
      ['jobman tpus --json | jq -r \'select(.owner.kind == "none") | .resource\'', 'for programs: one object a line'],
    ],
    exitCodes: {
      4: 'with --forget: a job or a setting still uses the project',
      5: 'no project answered; if at least one did, its TPUs are listed and the code is 0',
    },
    flags: tpusFlags,
    load: async () => (await import('../commands/tpus.ts')).tpus,
  }),
  command({
    names: ['zones'],
    summary: 'What each place has answered lately, when it last gave a TPU, and what we hold there',
    usage: '[--accelerator a] [--project p]',
    about:
      'A place is a zone, a type and a price. LAST ANSWER is what it told any job of this record, GOT ONE when it last gave\n' +
      'one and how long that job had waited. A job with tpu.alternatives passes over, as long as another is left, a place\n' +
      'that has told another job in the last five minutes that it has nothing. No cloud is asked.\n' +
      'A narrow terminal loses columns in this order: GOT ONE, JOBS, PRICING.',
    examples: [
      ['jobman zones', 'every place that a job has asked'],
      ['jobman zones --accelerator v5e', 'every size of a generation'],
      [
        'jobman zones --json | jq -r \'select(.lastAnswer.answer == "ready") | .zone\'',
        'for programs: one object a line',
      ],
    ],
    flags: {
      accelerator: stringFlag('This type, or this generation, only', 'accelerator'),
      project: stringFlag('This project only', 'project'),
    },
    load: async () => (await import('../commands/zones.ts')).zones,
  }),
  command({
    names: ['images'],
    summary: 'The images of the Harbor registry, and their tags',
    usage: '[--refresh]',
    about:
      'Those of the project that the settings name (harbor.url, harbor.project), else of every project that you may see. What\n' +
      'was asked for in the last ten minutes is told again with its age. docs/harbor.md tells how to log in.',
    examples: [
      ['jobman images', 'each image with its tags, the newest first'],
      ['jobman images --refresh --json | jq -r .name', 'asked anew, one object a line'],
    ],
    exitCodes: {
      1: 'you may not look at the project',
      5: 'the registry cannot be reached or does not accept the login',
    },
    flags: { refresh: boolFlag('Ask the registry, whatever was said before') },
    load: async () => (await import('../commands/images.ts')).images,
  }),
  command({
    names: ['image-details'],
    summary: 'What is written about an image, and its tags',
    usage: '-i <name[:tag|@digest]> [--refresh]',
    about:
      'The description belongs to the image and not to a tag; a tag or a digest chooses what stands in the table. A name is\n' +
      'looked for in the project of the settings, else its first word is the project.',
    examples: [
      ['jobman image-details -i ubuntu_python_tensorflow', 'its description, with its newest tags'],
      ['jobman image-details -i lab/trainer:3.1cuda11', 'one tag of an image of the project lab'],
    ],
    exitCodes: { 3: 'there is no such image, or no such tag of it' },
    flags: {
      image: stringFlag('The image', 'image', 'i'),
      refresh: boolFlag('Ask the registry, whatever was said before'),
    },
    args: [{ name: 'image', summary: 'The image' }],
    load: async () => (await import('../commands/images.ts')).imageDetails,
  }),
  command({
    names: ['resources-flavors'],
    summary: 'The resources flavors that a Kubernetes job may name, and what each asks for',
    usage: '',
    about:
      'They are settings (job.resources.predefined), so no cluster is asked. CPU and MEMORY are requests, with the limit where\n' +
      'it is another. GPUS counts every kind together.',
    examples: [
      ['jobman resources-flavors', 'those of the settings, with the default marked'],
      ['jobman -s lab.json resources-flavors --json', "with a file of one's own over them, one object a line"],
    ],
    load: async () => (await import('../commands/resources-flavors.ts')).resourcesFlavors,
  }),
  command({
    names: ['queue'],
    summary: 'How many jobs of a Kubernetes cluster are active, with which resources, and who waits where in line',
    usage: '[-n name | -A] [--context name] [--publish]',
    about:
      'Counts what waits or runs, by flavor and by what one pod asks for; GPUS adds every kind. Yours are the jobs of your\n' +
      'namespace. Who may not list the jobs of the whole cluster sees the list that --publish writes into a ConfigMap, with its\n' +
      'age; deploy/kubernetes/ has a CronJob for that. Jobs of jobman that wait for a TPU are in `jobman list --phase queued`.',
    examples: [
      ['jobman queue', 'who asks for what, and your place in line'],
      ['jobman queue --json | jq -c \'select(.kind == "waiting" and .yours)\'', 'for programs: your jobs that wait'],
      ['jobman queue --publish', 'writes the list for everybody; needs the right to list all jobs'],
    ],
    exitCodes: { 1: 'not even the jobs of your namespace may be listed', 5: 'the cluster cannot be reached' },
    flags: queueFlags,
    load: async () => (await import('../commands/queue.ts')).queue,
  }),
]);
