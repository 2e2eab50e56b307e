// Every command, in the order of the help. Nothing is loaded here but words: the file of a command comes when it runs.
// docs/commands.md is held to this table by a test.

import { phases } from '../core/phase.ts';
import { emulatorVerbs } from './emulator-verbs.ts';
import { jobIds } from './completion/ids.ts';
import { settingWords } from './completion/settings.ts';
import type { AskFlags } from './commands/ask.ts';
import type { CleanFlags } from './commands/clean.ts';
import type { ControllerRunFlags } from './commands/controller-run.ts';
import type { CpFlags } from './commands/cp.ts';
import type { CreateFlags } from './commands/create.ts';
import type { DeleteFlags } from './commands/delete.ts';
import type { EmulatorServeFlags } from './commands/emulator-serve.ts';
import type { ExecFlags } from './commands/exec.ts';
import type { HistoryFlags } from './commands/history.ts';
import type { ImageDetailsFlags } from './commands/image-details.ts';
import type { ImagesFlags } from './commands/images.ts';
import type { ListFlags } from './commands/list.ts';
import type { ImportFlags } from './commands/import.ts';
import type { LogsFlags } from './commands/logs.ts';
import type { PortForwardFlags } from './commands/port-forward.ts';
import type { QueueFlags } from './commands/queue.ts';
import type { RunFlags } from './commands/run.ts';
import type { SetupFlags } from './commands/setup.ts';
import type { ShowFlags } from './commands/show.ts';
import type { SshConfigFlags } from './commands/ssh-config.ts';
import type { SshFlags } from './commands/ssh.ts';
import type { SubmitFlags } from './commands/submit.ts';
import type { ValidateFlags } from './commands/validate.ts';
import type { TpusFlags } from './commands/tpus.ts';
import type { ZonesFlags } from './commands/zones.ts';
import type { WaitFlags } from './commands/wait.ts';
import {
  parseAmount,
  parseGpus,
  parseJobName,
  parseLabel,
  parseObjectName,
  parsePods,
  parseRequest,
  parseSecret,
  parseToleration,
  parseTtl,
  parseVariable,
  parseVolume,
} from './cluster-flags.ts';
import { entry, mark, value, values, word, words, type Entry } from './entry.ts';
import { parseShell, shells, type Shell } from './completion/shells.ts';
import {
  parseAddress,
  parseCount,
  parseDuration,
  parseDurationOrNever,
  parseFactor,
  parseHosts,
  parsePattern,
  parseWorker,
  parseWorkers,
} from './parse.ts';

const job = {
  placeholder: 'job',
  brief: 'Id (1 is 000001) or name',
  parse: String,
  proposeCompletions: jobIds,
} as const;
const jobs = { kind: 'array', parameter: job } as const;
const nothing = { kind: 'tuple', parameters: [] } as const;
const yaml = { placeholder: 'yaml', brief: 'The manifest', parse: String } as const;

function listed(words: readonly string[]): string {
  return words.join(', ');
}

const jobName = word('The job of exactly this name, even if it looks like an id', 'name');
/** Where a job of a cluster is, where it is not the place that the kubeconfig chooses. */
const place = {
  namespace: value('A job of this namespace of a Kubernetes cluster', 'name', parseObjectName),
  context: word('A job of the cluster of this context of the kubeconfig', 'context'),
};
/** The letters of those flags, the same in every command. */
const placeLetters = { j: 'jobName', n: 'namespace' } as const;
const verdict = {
  0: 'every job succeeded',
  1: 'one failed, was stopped or was cancelled',
  130: 'you left; the job goes on',
};

export const table: readonly Entry[] = [
  entry<CreateFlags, [string | undefined]>({
    path: 'create',
    section: 'Start',
    brief: 'Create a job from a manifest and start it',
    usage: '<yaml> [--follow] [--dry-run] [--set key=value]...',
    about:
      "Prints the job's id. The job goes on without this terminal; --follow shows what it waits for and what its workers\n" +
      "print, and ends with the job's verdict. Ctrl-C leaves and never ends the job; `jobman logs 1 -f` comes back to it.",
    examples: [
      ['jobman create configs/quick-start.yaml --follow', 'run the example on the built-in cloud and watch it'],
      ['jobman create --config=train.yaml --set command.lr=0.01', 'one key of the manifest changed for this job'],
      ['jobman create train.yaml --dry-run', 'what would be asked for, under which rules; nothing is stored'],
    ],
    exits: {
      0: 'created; with --follow: the job succeeded',
      1: 'with --follow: the job failed, was stopped or was cancelled',
      2: 'the manifest is wrong; nothing was stored',
      5: 'there is no login to Google Cloud, and the job needs one; nothing was stored',
      130: 'you left; the job goes on',
    },
    flags: {
      config: word('The manifest, as a flag', 'yaml'),
      follow: mark('Show progress and logs until the job has ended'),
      dryRun: mark('Say what would be done, and do nothing'),
      set: words('Change one key of the manifest', 'key=value'),
      noFold: mark('With --follow: print equal lines of several workers each'),
      namespace: value('The namespace, for a manifest with a section kubernetes', 'name', parseObjectName),
      context: word('The context of the kubeconfig, for such a manifest', 'context'),
      noCheck: mark('Create it also without a login to Google Cloud'),
      verbose: mark('With --dry-run: also print the script that runs the command in its environment'),
    },
    letters: { f: 'follow', n: 'namespace' },
    args: { kind: 'tuple', parameters: [{ ...yaml, optional: true }] },
    load: async () => (await import('./commands/create.ts')).create,
  }),
  entry<SubmitFlags, string[]>({
    path: 'submit',
    section: 'Start',
    brief: 'Submit a job to a Kubernetes cluster',
    usage: '[-i image] [-r flavor] [-j name] [-f yaml] [--dry-run] [-- word...]',
    about:
      "What stands behind `--` is run in the container: behind the image's entry point, or with -c in its place. A flavor is\n" +
      "the name of one of the settings (jobman resources-flavors), a file, or JSON. Without -i and -r the settings' own are\n" +
      'taken. The names of the job and of its flavor can be seen by everybody in the cluster.',
    examples: [
      ['jobman submit -i alpine -r no-gpu -- ls -al /', 'a listing, on what the flavor no-gpu asks for'],
      ['jobman submit -i alpine --dry-run -- ls', 'print the Job, and ask no cluster'],
      [
        'jobman submit -i lab/train:3 --gpus 2 --shm 8G --volume data:/data:ro -- python3 train.py',
        'two GPUs, and data',
      ],
      ['jobman submit -f train.yaml --env SEED=7', 'a manifest with a section kubernetes, and a variable beside it'],
      ['jobman submit -it --rm -i alpine -- sh', 'a shell in a new pod, which is deleted at the end'],
      ['jobman submit --stdin --rm -i alpine -- sort <words', 'a file or a pipe through a new pod'],
      ['jobman submit -f job.yaml -n vision', 'a whole Job object of Kubernetes, as YAML or JSON'],
    ],
    exits: { 2: 'something is wrong with the job; nothing was submitted', 3: 'there is no such flavor' },
    flags: {
      image: word('The image, behind the prefix of the settings', 'image'),
      resourcesFlavor: word("A flavor's name, its file or its JSON", 'flavor'),
      jobName: value("The job's name; without it a new one", 'name', parseJobName),
      annotations: word('Annotations of the Job: a JSON object of texts', 'json'),
      command: mark("The words behind `--` replace the image's entry point"),
      dryRun: mark('Print the Job as JSON, and ask no cluster'),
      follow: mark('Show progress and logs until the job has ended'),
      tty: mark('An interactive session: attach this terminal to the program; the same as -it'),
      stdin: mark('Feed standard input to the program, and print its log'),
      rm: mark('With -it or --stdin: delete the job when the session ends, for any reason'),
      file: word('A manifest or a whole Job, which flags override; `-` reads standard input', 'yaml'),
      set: words('Change one key of the manifest', 'key=value'),
      namespace: value('The namespace', 'name', parseObjectName),
      context: word('The context of the kubeconfig', 'context'),
      env: values('A variable of the program; without a value the one it has here', 'name[=value]', parseVariable),
      secret: values('A key of a Secret of the cluster as a variable', 'name:key=variable', parseSecret),
      workdir: word('Folder of the image that it starts in', 'path'),
      cpu: value("CPUs of each pod, in place of the flavor's", 'amount', parseRequest),
      memory: value("Memory of each pod, in place of the flavor's", 'amount', parseRequest),
      gpus: value('GPUs of each pod, and their model as nodes are labelled', 'n[:model]', parseGpus),
      shm: value('Size of /dev/shm', 'amount', parseAmount),
      volume: values('A PersistentVolumeClaim, and where it appears', 'claim:path[:ro]', parseVolume),
      serviceAccount: value('The ServiceAccount that the pods act as', 'name', parseObjectName),
      label: values('A label of the Job and of its pods', 'key=value', parseLabel),
      nodeSelector: values('A label that the node must have', 'key=value', parseLabel),
      toleration: values('A taint that the pods tolerate', 'key[=value][:effect]', parseToleration),
      priorityClass: value('The PriorityClass of the pods', 'name', parseObjectName),
      imagePullSecret: values('A Secret with the login of the registry', 'name', parseObjectName),
      parallelism: value('How many pods run at once', 'n', parsePods),
      completions: value('How many pods have to succeed', 'n', parsePods),
      backoffLimit: value('How many failed pods are replaced', 'n', parseCount),
      timeout: value('Kubernetes ends it after this time', 'time', parseDuration),
      ttl: value('Kubernetes removes it this long after its end; 7d unless the settings differ', 'time|none', parseTtl),
      suspend: mark('Create it without starting it'),
      queue: value('The queue of Kueue that it waits in', 'name', parseObjectName),
    },
    letters: {
      i: 'image',
      r: 'resourcesFlavor',
      j: 'jobName',
      a: 'annotations',
      c: 'command',
      f: 'file',
      t: 'tty',
      n: 'namespace',
    },
    args: {
      kind: 'array',
      parameter: { placeholder: 'word', brief: 'What the container runs, behind two dashes', parse: String },
    },
    load: async () => (await import('./commands/submit.ts')).submit,
  }),
  entry<ValidateFlags, [string]>({
    path: 'validate',
    section: 'Start',
    brief: 'Check a manifest and say every problem at once',
    usage: '<yaml> [--set key=value]... [--offline]',
    about:
      'A problem is what `create` refuses, also a file or a variable that is missing on this machine. A warning is what it\n' +
      'accepts, and what is most likely not meant.\n' +
      'Cloud Storage is asked where the buckets are: one in another region than the TPU is a problem. Where it does not\n' +
      'answer within 3 s, a line says so.\n' +
      'With --json: one object a line for each of them, with its severity; nothing for a manifest without any.',
    examples: [
      ['jobman validate train.yaml', 'each problem with its line, column and key'],
      ['jobman validate train.yaml --set tpu.accelerator=v5litepod-16', 'with one key changed, as create takes it'],
    ],
    exits: { 0: 'it may be created; there may be warnings', 2: 'the manifest is wrong' },
    flags: {
      set: words('Change one key of the manifest', 'key=value'),
      offline: mark('Ask nobody where the buckets are'),
    },
    args: { kind: 'tuple', parameters: [yaml] },
    load: async () => (await import('./commands/validate.ts')).validate,
  }),
  entry({
    path: 'schema',
    section: 'Start',
    brief: 'Print the JSON Schema of a manifest, for editors',
    usage: '',
    examples: [['jobman schema > jobman.schema.json', "then name it in the editor's YAML settings"]],
    flags: {},
    args: nothing,
    load: async () => (await import('./commands/schema.ts')).schema,
  }),
  entry<ListFlags>({
    path: 'list',
    aliases: ['ls', 'ps'],
    section: 'Look',
    brief: 'Jobs: all that are not settled and the 50 that settled last, the newest first',
    usage: '[--user u] [--phase p]... [--tag t] [--name n] [--all] [-n namespace | -A] [--watch]',
    about:
      'A job is settled once it has succeeded, failed, been stopped or been cancelled: nothing more happens to it until\n' +
      `you say so. --phase takes one of ${listed(phases.slice(0, 6))},\n` +
      `${listed(phases.slice(6))}.\n` +
      'A narrow terminal loses columns in this order: HOST0 IP, USER (if all are of one), ZONE, AGE, ACCELERATOR.\n' +
      'With --watch keys lead to one job and back: j and k choose it, Enter shows it, w says why, l follows its log, ? helps.',
    examples: [
      ['jobman list', 'what there is'],
      ['jobman list --phase failed --phase recovering --name "vit-*"', 'some of it'],
      ['jobman list --all --json | jq -r .id', 'for programs: one object a line'],
      ['jobman list -A', 'with the Jobs of every namespace of the cluster'],
      ['jobman list --watch', 'redrawn when something changes; q leaves'],
    ],
    flags: {
      user: word('Jobs of this user', 'user'),
      phase: {
        kind: 'enum',
        values: phases,
        brief: 'Jobs in this phase; may be repeated',
        optional: true,
        variadic: true,
      },
      tag: word('Jobs with this tag', 'tag'),
      name: word('Jobs of this name, or of a pattern: vit-*', 'name'),
      all: mark('All settled jobs too'),
      watch: mark('Go on, and show changes'),
      namespace: value('The Jobs of this namespace of a Kubernetes cluster too', 'name', parseObjectName),
      context: word('The Jobs of the cluster of this context of the kubeconfig too', 'context'),
      allNamespaces: mark('The Jobs of every namespace of the cluster'),
    },
    letters: { a: 'all', w: 'watch', n: 'namespace', A: 'allNamespaces' },
    args: nothing,
    load: async () => (await import('./commands/list.ts')).list,
  }),
  entry<ShowFlags, string[]>({
    path: 'show',
    aliases: ['details', 'describe', 'status'],
    section: 'Look',
    brief: 'One job: where it is, its attempts, its workers',
    usage: '<job>...',
    examples: [
      ['jobman show 42', 'the job 000042'],
      ['jobman details -j vit-l16', 'the same by its name'],
      ['jobman show 42 --json | jq .attempts', 'its attempts, for programs'],
      ['jobman details -j listing --namespace vision', 'a job of a Kubernetes cluster, with its pods and events'],
    ],
    flags: { jobName, ...place },
    letters: placeLetters,
    args: jobs,
    load: async () => (await import('./commands/show.ts')).show,
  }),
  entry<LogsFlags, string[]>({
    path: 'logs',
    section: 'Look',
    brief: 'What the workers print',
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
    flags: {
      follow: mark('Go on as lines come, until the job has ended'),
      worker: value('This worker only', 'n|here', parseWorker),
      step: word("A setup step's log instead; `job` and `tpu` are the job's own", 'name'),
      attempt: value('This attempt instead of the newest', 'n', parseCount),
      tail: value('The last lines of each worker', 'lines', parseCount),
      grep: value('Only lines in which this regular expression is found', 'pattern', parsePattern),
      noFold: mark('Print equal lines of several workers each'),
      firstError: mark('Only the first error over all workers, with the lines around it'),
      raw: mark('Bytes as they are, without numbers in front'),
      container: word('In a cluster: this container of the pod', 'name'),
      allContainers: mark('In a cluster: every container of the pod, with its name in front'),
      previous: mark('In a cluster: what the container printed before it was started anew'),
      allPods: mark('In a cluster: every pod of the job, with its number or the end of its name in front'),
      since: value('In a cluster: only what was printed in this time', 'time', parseDuration),
      jobName,
      ...place,
    },
    letters: { f: 'follow', w: 'worker', ...placeLetters },
    args: jobs,
    load: async () => (await import('./commands/logs.ts')).logs,
  }),
  entry<HistoryFlags, string[]>({
    path: 'history',
    section: 'Look',
    brief: 'Every event of a job',
    usage: '<job>... [--timeline]',
    examples: [
      ['jobman history 42', 'one line for each thing that happened'],
      ['jobman history 42 --timeline', 'and its life as one line above'],
      ['jobman history 42 --json', 'one object for each event'],
    ],
    flags: { timeline: mark('Draw the attempts along an axis of time'), jobName, ...place },
    letters: placeLetters,
    args: jobs,
    load: async () => (await import('./commands/history.ts')).history,
  }),
  entry<ShowFlags, string[]>({
    path: 'why',
    section: 'Look',
    brief: 'Why a job is in its phase, on what evidence, and what comes next',
    usage: '<job>...',
    examples: [['jobman why 42', 'one sentence, what it rests on, and when the next look is']],
    flags: { jobName, ...place },
    letters: placeLetters,
    args: jobs,
    load: async () => (await import('./commands/why.ts')).why,
  }),
  entry<WaitFlags, string[]>({
    path: 'wait',
    section: 'Look',
    brief: 'Wait until jobs have ended; the exit code is their verdict',
    usage: '<job>... [--timeout 2h]',
    about:
      'On a terminal it shows what is waited for; elsewhere each change is a line on standard error. -q is silent.',
    examples: [
      ['jobman wait 42 && jobman create next.yaml', 'the next job once this one has succeeded'],
      ['jobman wait 42 43 --timeout 8h', 'at most eight hours for both'],
    ],
    exits: { ...verdict, 1: 'one failed, was stopped or was cancelled, or the time was over' },
    flags: { timeout: value('Give up after this time; the job goes on', 'time', parseDuration), jobName, ...place },
    letters: placeLetters,
    args: jobs,
    load: async () => (await import('./commands/wait.ts')).wait,
  }),
  entry<TpusFlags>({
    path: 'tpus',
    section: 'Look',
    brief: 'What exists in the clouds, whose it is, how long idle, and what it costs',
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
      ['jobman tpus --json | jq -r \'select(.whose.kind == "nobody") | .resource\'', 'for programs: one object a line'],
    ],
    exits: {
      4: 'with --forget: a job or a setting still uses the project',
      5: 'no project answered; if at least one did, its TPUs are listed and the code is 0',
    },
    flags: {
      all: mark('Every zone of the projects'),
      zone: word('This zone only', 'zone'),
      project: word('This project only', 'project'),
      forget: word('Stop asking about a project that only finished jobs used', 'project'),
    },
    args: nothing,
    load: async () => (await import('./commands/tpus.ts')).tpus,
  }),
  entry<ZonesFlags>({
    path: 'zones',
    section: 'Look',
    brief: 'What each place has answered lately, when it last gave a TPU, and what we hold there',
    usage: '[--accelerator a] [--project p]',
    about:
      'A place is a zone, a type and a price. LAST ANSWER is what it told any job of this record, GOT ONE when it last gave\n' +
      'one and how long that job had waited. A job with tpu.alternatives passes over, as long as another is left, a place\n' +
      'that has told another job in the last five minutes that it has nothing. No cloud is asked.\n' +
      'A narrow terminal loses columns in this order: GOT ONE, JOBS, PRICING.',
    examples: [
      ['jobman zones', 'every place that a job has asked'],
      ['jobman zones --accelerator v5e', 'every size of a generation'],
      ['jobman zones --json | jq -r \'select(.last.answer == "ready") | .zone\'', 'for programs: one object a line'],
    ],
    flags: {
      accelerator: word('This type, or this generation, only', 'accelerator'),
      project: word('This project only', 'project'),
    },
    args: nothing,
    load: async () => (await import('./commands/zones.ts')).zones,
  }),
  entry<ImagesFlags>({
    path: 'images',
    section: 'Look',
    brief: 'The images of the Harbor registry, and their tags',
    usage: '[--refresh]',
    about:
      'Those of the project that the settings name (harbor.url, harbor.project), else of every project that you may see. What\n' +
      'was asked for in the last ten minutes is told again with its age. docs/harbor.md tells how to log in.',
    examples: [
      ['jobman images', 'each image with its tags, the newest first'],
      ['jobman images --refresh --json | jq -r .name', 'asked anew, one object a line'],
    ],
    exits: { 1: 'you may not look at the project', 5: 'the registry cannot be reached or does not accept the login' },
    flags: { refresh: mark('Ask the registry, whatever was said before') },
    args: nothing,
    load: async () => (await import('./commands/images.ts')).images,
  }),
  entry<ImageDetailsFlags, [string | undefined]>({
    path: 'image-details',
    section: 'Look',
    brief: 'What is written about an image, and its tags',
    usage: '-i <name[:tag|@digest]> [--refresh]',
    about:
      'The description belongs to the image and not to a tag; a tag or a digest chooses what stands in the table. A name is\n' +
      'looked for in the project of the settings, else its first word is the project.',
    examples: [
      ['jobman image-details -i ubuntu_python_tensorflow', 'its description, with its newest tags'],
      ['jobman image-details -i lab/trainer:3.1cuda11', 'one tag of an image of the project lab'],
    ],
    exits: { 3: 'there is no such image, or no such tag of it' },
    flags: {
      image: word('The image', 'image'),
      refresh: mark('Ask the registry, whatever was said before'),
    },
    letters: { i: 'image' },
    args: {
      kind: 'tuple',
      parameters: [{ placeholder: 'image', brief: 'The image', parse: String, optional: true }],
    },
    load: async () => (await import('./commands/image-details.ts')).imageDetails,
  }),
  entry({
    path: 'resources-flavors',
    section: 'Look',
    brief: 'The resources flavors that a Kubernetes job may name, and what each asks for',
    usage: '',
    about:
      'They are settings (job.resources.predefined), so no cluster is asked. CPU and MEMORY are requests, with the limit where\n' +
      'it is another. GPUS counts every kind together.',
    examples: [
      ['jobman resources-flavors', 'those of the settings, with the default marked'],
      ['jobman -s lab.json resources-flavors --json', "with a file of one's own over them, one object a line"],
    ],
    flags: {},
    args: nothing,
    load: async () => (await import('./commands/resources-flavors.ts')).resourcesFlavors,
  }),
  entry<QueueFlags>({
    path: 'queue',
    section: 'Look',
    brief: 'How many jobs of a Kubernetes cluster are active, with which resources, and who waits where in line',
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
    exits: { 1: 'not even the jobs of your namespace may be listed', 5: 'the cluster cannot be reached' },
    flags: {
      publish: mark('Write the list of all active jobs into the ConfigMap of the settings (jobsQueue)'),
      allNamespaces: mark('Yours are your jobs in every namespace'),
      namespace: value("Your namespace, where it is not the context's", 'name', parseObjectName),
      context: word('The context of the kubeconfig', 'context'),
    },
    letters: { n: 'namespace', A: 'allNamespaces' },
    args: nothing,
    load: async () => (await import('./commands/queue.ts')).queue,
  }),
  entry<AskFlags, string[]>({
    path: 'start',
    section: 'Change',
    brief: 'Bring up a job that is stopped or was never started',
    usage: '<job>...',
    about: 'In a cluster it takes back what `stop` did: the pods begin anew.',
    examples: [['jobman start 42', 'from the beginning, on the capacity it holds or on new']],
    flags: { jobName, ...place },
    letters: placeLetters,
    args: jobs,
    load: async () => (await import('./commands/ask.ts')).start,
  }),
  entry<AskFlags & { readonly release: boolean | undefined }, string[]>({
    path: 'stop',
    section: 'Change',
    brief: 'End the program on every worker and keep the capacity',
    usage: '<job>... [--release]',
    about:
      'Says what is still held and what that costs an hour. A job of a cluster is suspended: its pods are ended, and it holds\n' +
      'nothing.',
    examples: [
      ['jobman stop 42', 'the program ends, the TPU stays'],
      ['jobman stop 42 --release', 'the TPU goes too'],
    ],
    flags: { release: mark('Let the capacity go as well'), jobName, ...place },
    letters: placeLetters,
    args: jobs,
    load: async () => (await import('./commands/ask.ts')).stop,
  }),
  entry<AskFlags & { readonly workdir: boolean | undefined }, string[]>({
    path: 'resume',
    section: 'Change',
    brief: 'Start again from the last checkpoint',
    usage: '<job>... [--workdir]',
    about: 'The program finds JOBMAN_STAGE one higher, and JOBMAN_RESUME_FROM. In a cluster it is the same as `start`.',
    examples: [
      ['jobman resume 42', 'after a stop on the same capacity, after a cancel on new'],
      ['jobman resume 42 --workdir', 'with the files of job.workdir as they are now'],
    ],
    flags: { workdir: mark('Copy job.workdir again; otherwise the job runs the copy that it has'), jobName, ...place },
    letters: placeLetters,
    args: jobs,
    load: async () => (await import('./commands/ask.ts')).resume,
  }),
  entry<AskFlags, string[]>({
    path: 'rerun',
    section: 'Change',
    brief: 'Start again from the beginning',
    usage: '<job>...',
    about:
      'In a cluster it is a new Job of the same spec, called train-2 after train; also of a job that the cluster has\n' +
      'forgotten.',
    examples: [
      ['jobman rerun 42', 'stage 0 again: from nothing, or from job.resume_from'],
      ['jobman rerun -j listing', 'a job of a cluster, as listing-2'],
    ],
    flags: { jobName, ...place },
    letters: placeLetters,
    args: jobs,
    load: async () => (await import('./commands/ask.ts')).rerun,
  }),
  entry<AskFlags, string[]>({
    path: 'cancel',
    aliases: ['kill'],
    section: 'Change',
    brief: 'Stop for good and release the capacity',
    usage: '<job>...',
    about: 'In a cluster the job is deleted; its logs and history stay here.',
    examples: [['jobman cancel 42 43', 'several at once; each gets its own answer']],
    flags: { jobName, ...place },
    letters: placeLetters,
    args: jobs,
    load: async () => (await import('./commands/ask.ts')).cancel,
  }),
  entry<DeleteFlags, string[]>({
    path: 'delete',
    aliases: ['rm'],
    section: 'Change',
    brief: 'Cancel, and take off the list once the capacity is seen gone',
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
      force: mark('Do not wait for a look; leave a recorded stray'),
      all: mark('Every Job of the namespace of the cluster'),
      own: mark('With --all: only those that are yours'),
      jobName,
      ...place,
    },
    letters: placeLetters,
    args: jobs,
    load: async () => (await import('./commands/delete.ts')).deleteJobs,
  }),
  entry<CleanFlags, string[]>({
    path: 'clean',
    section: 'Change',
    brief: 'Remove the files of settled jobs',
    usage: '<job>... | --all',
    about:
      '--all asks first. Without a terminal it is not done unless --yes says so. Of a job that its cluster has forgotten, the\n' +
      'history goes too: it is all that was left.',
    examples: [
      ['jobman clean 42', 'its logs and copies are gone; its history stays'],
      ['jobman clean --all --yes', 'those of all your settled jobs'],
    ],
    flags: { all: mark('All of your settled jobs'), jobName, ...place },
    letters: placeLetters,
    args: jobs,
    load: async () => (await import('./commands/clean.ts')).clean,
  }),
  entry<object, string[]>({
    path: 'gc',
    section: 'Change',
    brief: 'List what may be left behind in a cloud; with --yes release it',
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
    exits: { 1: 'one could not be released', 5: 'no project answered; if at least one did, the code is 0' },
    flags: {},
    args: {
      kind: 'array',
      parameter: { placeholder: 'name', brief: 'The job that left it, or its name', parse: String },
    },
    load: async () => (await import('./commands/gc.ts')).gc,
  }),
  entry<RunFlags, string[]>({
    path: 'run',
    section: 'Work on it',
    brief: 'Do now, in the foreground, what is left to do for a job',
    usage: '<job> [--cmd-only]',
    examples: [
      ['jobman run 42', 'ask for capacity, set up, run'],
      ['jobman run 42 --cmd-only', 'just the command, on workers that are ready'],
    ],
    exits: { 0: 'the job succeeded', 1: 'it failed, was stopped or was cancelled' },
    flags: { cmdOnly: mark('Skip capacity and setup'), jobName },
    letters: { j: 'jobName' },
    args: jobs,
    load: async () => (await import('./commands/run.ts')).runJob,
  }),
  entry<SshFlags, string[]>({
    path: 'ssh',
    section: 'Work on it',
    brief: 'A shell on a worker',
    usage: '<job> [--worker n] [-- command...]',
    about:
      "The system's own ssh, on this terminal. For many workers at once: jobman exec. For an editor: jobman ssh-config.\n" +
      'It ends within a minute when the worker goes silent, unless your ssh_config says otherwise.',
    examples: [
      ['jobman ssh 42', 'worker 0'],
      ['jobman ssh 42 --worker 3 -- df -h', 'one command on worker 3'],
    ],
    exits: { 255: 'ssh could not connect; otherwise the exit code of what ran there' },
    flags: { worker: value("The worker's number", 'n', parseCount), jobName },
    letters: { w: 'worker', i: 'worker', j: 'jobName' },
    args: jobs,
    load: async () => (await import('./commands/ssh.ts')).ssh,
  }),
  entry<ExecFlags, string[]>({
    path: 'exec',
    section: 'Work on it',
    brief: 'Run one command on many workers or pods at once',
    usage: '<job> [--workers all|0,2] [--timeout 30s] [-i] [-t] [--in-container] [--pod pod] -- <command>...',
    about:
      "One word after the dashes is a line for the login's shell there: '$HOME', pipes and stars mean what they mean on the\n" +
      'worker. Several words are a program and its arguments, which arrive exactly as they are; no shell reads them.\n' +
      'It runs as after a login, not in the environment of the job; --in-container runs it in the container of the job,\n' +
      'with the variables of the command, but without its secrets.\n' +
      'With several workers each line has its worker in front; on a terminal a line that several print is drawn once, and\n' +
      'the end says where they agree: `same on 31/32`. Ctrl-C ends it on the workers too; so does a line that breaks.\n' +
      'A job of a cluster has pods in their place, of which all that run are meant; -it gives one of them this terminal.',
    examples: [
      ["jobman exec 42 -- 'df -h / | tail -1'", 'a line for a shell, on all workers'],
      ['jobman exec 42 --workers 0,4-7 -- python3 train.py --check', 'a program and its arguments'],
      ['jobman exec 42 --json -- uptime | jq -r .stdout', 'one object a worker'],
      ["jobman exec 42 --workers 0 --stdin -- 'cat >notes' <notes", 'with input, for one worker'],
      ['jobman exec -j listing -it -- sh', 'a shell in the pod of a job of a cluster'],
    ],
    exits: {
      0: 'it ended with 0 on every worker',
      124: 'its time was over on a worker',
      4: 'in a cluster: the pod does not run',
      255: 'a worker could not be reached; otherwise the greatest exit code, 128 and its number for a signal',
    },
    flags: {
      workers: value('Which workers, or pods; all by default', 'all|0,2', parseWorkers),
      timeout: value('End it on the workers after this time', 'time', parseDuration),
      stdin: mark('Give our input to the command, on one worker; otherwise its input is empty'),
      tty: mark('In a cluster: this terminal is that of the command, in one pod; it gets our input too'),
      pod: word('In a cluster: the pod of this number or name, or the end of its name', 'pod'),
      container: word('In a cluster: this container of the pod', 'name'),
      inContainer: mark("In the container that the job's command runs in"),
      noFold: mark('On a terminal: print equal lines of several workers each'),
      jobName,
      ...place,
    },
    letters: { w: 'workers', i: 'stdin', t: 'tty', c: 'container', ...placeLetters },
    args: jobs,
    load: async () => (await import('./commands/exec.ts')).exec,
  }),
  entry<SetupFlags, string[]>({
    path: 'setup',
    section: 'Work on it',
    brief: 'Run one setup step again, on all workers that a job holds',
    usage: '<job> <step> [--force]',
    about:
      'The steps are those of `setup.modules`: ssh, gcsfuse, docker, conda, venv; and `files` for job.files. Where the\n' +
      "step's check succeeds, nothing is done; --force applies it all the same. All workers run it at once, and a failure on\n" +
      'one stops no other. Refused while the controller is setting up, and while the command runs in what the step would\n' +
      'replace; the message says what to do. Ctrl-C leaves; what has begun on a worker goes on there.',
    examples: [
      ['jobman setup 42 gcsfuse', 'mount the buckets again where they are not mounted'],
      ['jobman setup 42 docker --force', 'pull the image again, to get what is behind its tag now'],
    ],
    exits: { 0: 'the step holds on every worker', 1: 'it failed on a worker', 4: 'it may not be done now' },
    flags: {
      force: mark('Apply the step even where it holds'),
      noFold: mark('On a terminal: print equal lines of several workers each'),
      jobName,
    },
    letters: { j: 'jobName' },
    args: jobs,
    load: async () => (await import('./commands/setup.ts')).setup,
  }),
  entry<CpFlags, string[]>({
    path: 'cp',
    section: 'Work on it',
    brief: 'Copy files and folders to workers or pods, or from them',
    usage: '<from>... <to> [--workers all|0,2] [--pod pod] [--replace]',
    about:
      'One side is `<job>:path`; relative paths there begin in the login folder. Into a folder that is there, else to the new\n' +
      'path; a slash at its end means a folder, which is made. From several workers each gets a folder: worker-0, worker-1.\n' +
      'Times, links and the rights of the owner are kept; your umask limits the rights of others. A copy is renamed into its\n' +
      'place when all of it has arrived: there is no half of one. A copy from a worker has the name that you asked for, and\n' +
      'loses setuid bits, devices and FIFOs.\n' +
      'In a cluster it copies to and from the running pods. Relative paths begin in the working directory of the container,\n' +
      'whose image needs `sh` and `tar`. From several pods each gets a folder: pod-0, pod-1.',
    examples: [
      ['jobman cp train.py data 42:', 'a file and a folder, to all workers'],
      ['jobman cp 42:results ./', 'from all workers: ./worker-0/results and so on'],
      ['jobman cp 42:results/best.npz ./ --workers 0', 'from one: ./best.npz'],
      ['jobman cp train:/out/model.bin ./ --pod 0', 'from a pod of a job of a cluster'],
    ],
    exits: {
      3: 'there is nothing of that name',
      4: 'a file or folder is in the way',
      5: 'a worker could not be reached',
    },
    flags: {
      workers: value('Which workers, or pods; all by default', 'all|0,2', parseWorkers),
      replace: mark('Replace a file or folder that is there already'),
      pod: word('In a cluster: the pod of this number or name, or the end of its name', 'pod'),
      container: word('In a cluster: this container of the pod', 'name'),
      ...place,
    },
    letters: { w: 'workers', c: 'container', n: 'namespace' },
    args: { kind: 'array', parameter: { placeholder: 'path', brief: 'A path here, or <job>:path', parse: String } },
    load: async () => (await import('./commands/cp.ts')).cp,
  }),
  entry<PortForwardFlags, string[]>({
    path: 'port-forward',
    section: 'Work on it',
    brief: 'Reach a port of a worker or pod from here, as of TensorBoard',
    usage: '<job> <port|here:there>... [--worker n] [--pod pod] [--address a]',
    about:
      "It listens on this machine's loopback address only, unless --address names another, and goes on until Ctrl-C or\n" +
      'until the job has no machines any more. When the job is moved to another TPU, or has another pod, it says so and\n' +
      'goes there.',
    examples: [
      ['jobman port-forward 42 6006', 'http://127.0.0.1:6006 is port 6006 of worker 0'],
      ['jobman port-forward 42 8080:6006 9999 --worker 3', 'two ports of worker 3'],
      ['jobman port-forward -j vit-b16 8080:6006', 'of the pod of a job of a cluster'],
    ],
    exits: {
      1: 'the job has ended and has no machines any more',
      4: 'the port is taken, or the pod does not run',
      130: 'you ended it; the job goes on',
    },
    flags: {
      worker: value("The worker's number; 0 by default", 'n', parseCount),
      pod: word('In a cluster: the pod of this number or name; the first that runs by default', 'pod'),
      address: value('Listen on this address of this machine', 'address', parseAddress),
      jobName,
      ...place,
    },
    letters: { w: 'worker', i: 'worker', ...placeLetters },
    args: jobs,
    load: async () => (await import('./commands/port-forward.ts')).portForward,
  }),
  entry<SshConfigFlags, string[]>({
    path: 'ssh-config',
    section: 'Work on it',
    brief: 'Print the workers as hosts for ssh and editors',
    usage: '<job>...',
    about:
      'A Host block for each worker, `jobman-42-0` and so on; `jobman-42` is worker 0. For VS Code and the like, write it to a\n' +
      'file and name that in ~/.ssh/config: `Include jobman.config`. When a job has moved to another TPU, write it again.',
    examples: [
      ['jobman ssh-config 42 > ~/.ssh/jobman.config', 'for Include, or for ssh -F ~/.ssh/jobman.config jobman-42'],
    ],
    flags: { jobName },
    letters: { j: 'jobName' },
    args: jobs,
    load: async () => (await import('./commands/ssh-config.ts')).sshConfig,
  }),
  entry({
    path: 'controller status',
    section: 'This installation',
    brief: 'Whether the controller runs',
    usage: '',
    examples: [['jobman controller status', 'its process, version and log']],
    exits: { 1: 'it does not run' },
    flags: {},
    args: nothing,
    load: async () => (await import('./commands/controller.ts')).status,
  }),
  entry({
    path: 'controller start',
    section: 'This installation',
    brief: 'Start the controller in the background',
    usage: '',
    examples: [['jobman controller start', 'commands that need it do this by themselves']],
    flags: {},
    args: nothing,
    load: async () => (await import('./commands/controller.ts')).start,
  }),
  entry({
    path: 'controller stop',
    section: 'This installation',
    brief: 'Stop the controller; programs on workers run on',
    usage: '',
    examples: [['jobman controller stop', 'the next command that needs one starts another']],
    flags: {},
    args: nothing,
    load: async () => (await import('./commands/controller.ts')).stop,
  }),
  entry({
    path: 'controller restart',
    section: 'This installation',
    brief: 'Stop the controller and start another; programs on workers run on',
    usage: '',
    examples: [['jobman controller restart', 'with the settings, the environment and the SSH agent of this terminal']],
    flags: {},
    args: nothing,
    load: async () => (await import('./commands/controller.ts')).restart,
  }),
  entry<ControllerRunFlags>({
    path: 'controller run',
    section: 'This installation',
    brief: 'Run the controller in the foreground',
    usage: '[--idle-exit 10m]',
    examples: [
      ['jobman controller run', 'until Ctrl-C, or until nothing is left to watch'],
      ['jobman controller run --idle-exit never', 'for a service manager'],
    ],
    flags: {
      idleExit: value('Leave when nothing was left to watch for this long', 'time|never', parseDurationOrNever),
    },
    args: nothing,
    load: async () => (await import('./commands/controller-run.ts')).run,
  }),
  entry({
    path: 'controller install',
    section: 'This installation',
    brief: 'Let the controller outlive logout and reboot',
    usage: '',
    examples: [['jobman controller install', "a user service, or cron's @reboot"]],
    flags: {},
    args: nothing,
    load: async () => (await import('./commands/controller.ts')).install,
  }),
  entry({
    path: 'controller uninstall',
    section: 'This installation',
    brief: 'Undo `controller install`',
    usage: '',
    examples: [['jobman controller uninstall', 'what was installed is removed']],
    flags: {},
    args: nothing,
    load: async () => (await import('./commands/controller.ts')).uninstall,
  }),
  entry({
    path: 'emulator status',
    section: 'This installation',
    brief: 'Whether the built-in cloud runs, and what is in it',
    usage: '',
    examples: [['jobman emulator status', 'its address and its nodes']],
    exits: { 1: 'it does not run' },
    flags: {},
    args: nothing,
    load: async () => (await import('./commands/emulator.ts')).status,
  }),
  entry({
    path: 'emulator start',
    section: 'This installation',
    brief: 'Start the built-in cloud in the background',
    usage: '',
    examples: [['jobman emulator start', 'a job in project `emulator` does this by itself']],
    flags: {},
    args: nothing,
    load: async () => (await import('./commands/emulator.ts')).start,
  }),
  entry({
    path: 'emulator stop',
    section: 'This installation',
    brief: 'Stop the built-in cloud',
    usage: '',
    examples: [['jobman emulator stop', 'its state stays on disk']],
    flags: {},
    args: nothing,
    load: async () => (await import('./commands/emulator.ts')).stop,
  }),
  entry<EmulatorServeFlags>({
    path: 'emulator serve',
    section: 'This installation',
    brief: 'Run the built-in cloud in the foreground',
    usage: '[--port n] [--speed factor] [--seed n] [--state folder] [--hosts kind] [--schedule file]',
    about:
      'It prints READY and its address once it answers. docs/built-in-cloud.md tells how a rehearsal file is written.',
    examples: [
      ['jobman emulator serve --port 8080 --speed 10', 'ten times as fast as the real one'],
      ['jobman emulator serve --seed 7 --schedule storm.yaml', 'what is in that file happens to it'],
    ],
    flags: {
      port: value('Port of the API', 'n', parseCount),
      sshPort: value("Port of the workers' SSH", 'n', parseCount),
      seed: value('Seed of its temper', 'n', parseCount),
      speed: value('How much faster than the real one', 'factor', parseFactor),
      state: word('Folder of its state', 'folder'),
      hosts: value('What its machines are: process or sshd', 'kind', parseHosts),
      gcsfuse: word("Google's own gcsfuse, for its workers", 'path'),
      schedule: word('Rehearsal file: what happens to it, and when', 'file'),
      idleExit: value('Leave when it was empty and unasked for this long', 'time|never', parseDurationOrNever),
    },
    args: nothing,
    load: async () => (await import('./commands/emulator-serve.ts')).serve,
  }),
  entry<object, string[]>({
    path: 'emulator act',
    section: 'This installation',
    hidden: true,
    brief: 'Let something happen in the built-in cloud',
    usage: '<verb> [target] [--option value]...',
    about:
      "A target is a job's id or name, a node's name, or one of their workers: 1/3 is worker 3 of job 000001. From stockout\n" +
      'on a verb leaves a condition: for a time (--for 10m), for so many strikes (--times 3), or until it is cleared.\n' +
      'docs/built-in-cloud.md shows each with its options.',
    list: ['Verbs', emulatorVerbs],
    examples: [
      ['jobman emulator preempt 1', 'the cloud takes the TPU of job 000001'],
      ['jobman emulator stockout us-central2-b --for 10m', 'nothing to be had in that zone for ten minutes'],
    ],
    flags: {},
    args: {
      kind: 'array',
      parameter: { placeholder: 'word', brief: 'The verb, its target and its options', parse: String },
    },
    load: async () => (await import('./commands/emulator-act.ts')).act,
  }),
  entry<object, string[]>({
    path: 'settings',
    section: 'This installation',
    brief: 'The settings in force, and where each comes from; set or unset one',
    usage: '[set <key> <value> | unset <key>]',
    about:
      'They are in $JOBMAN_HOME/settings.json (~/.jobman/settings.json unless JOBMAN_HOME is set), which may also be written by\n' +
      'hand, with the keys that you want. docs/settings.md explains each. A value that is wrong changes nothing.',
    examples: [
      ['jobman settings', 'each value, and whether a variable, settings.json or the default says it'],
      ['jobman settings set tpu.project my-project', 'for manifests that name none'],
      ['jobman settings unset tpu.project', 'the default is in force again'],
    ],
    flags: {},
    args: {
      kind: 'array',
      parameter: {
        placeholder: 'word',
        brief: 'set or unset, a key, a value',
        parse: String,
        proposeCompletions: settingWords,
      },
    },
    load: async () => (await import('./commands/settings.ts')).settings,
  }),
  entry<ImportFlags, [string]>({
    path: 'import',
    section: 'This installation',
    brief: 'Take over the jobs of the TPU manager before this one',
    usage: '<folder> [--apply]',
    about:
      'The folder is the jobs/ of that program, in either of its layouts. Each job becomes one that has ended, with its\n' +
      'manifest and its logs; resume and rerun begin it here. Without --apply it only says what it would take, and what not\n' +
      'and why.\n' +
      'What was taken over before is not taken twice. Its data.json for `tpu` is taken over by `tpu import`.',
    examples: [
      ['jobman import ~/jobman/jobs', 'a dry run'],
      ['jobman import ~/jobman/jobs --apply', 'do it'],
    ],
    flags: { apply: { kind: 'boolean', optional: true, brief: 'Do it' } },
    args: {
      kind: 'tuple',
      parameters: [{ placeholder: 'folder', brief: 'The folder jobs/', parse: String }],
    },
    load: async () => (await import('./commands/import.ts')).importJobs,
  }),
  entry<object, [Shell]>({
    path: 'completion',
    section: 'This installation',
    brief: 'Print a script that completes commands, flags and job ids',
    usage: 'bash|zsh|fish',
    examples: [
      ['source <(jobman completion bash)', 'in ~/.bashrc'],
      ['source <(jobman completion zsh)', 'in ~/.zshrc'],
      ['jobman completion fish | source', 'in ~/.config/fish/config.fish'],
    ],
    flags: {},
    args: {
      kind: 'tuple',
      parameters: [
        { placeholder: 'shell', brief: 'bash, zsh or fish', parse: parseShell, proposeCompletions: () => [...shells] },
      ],
    },
    load: async () => (await import('./commands/completion.ts')).completion,
  }),
  entry<object, string[]>({
    path: 'help',
    section: 'This installation',
    brief: 'Show the help of a command',
    usage: '[command]',
    examples: [
      ['jobman help', 'all commands'],
      ['jobman help logs', 'the same as jobman logs --help'],
    ],
    flags: {},
    args: {
      kind: 'array',
      parameter: {
        placeholder: 'command',
        brief: 'The words of the command',
        parse: String,
        proposeCompletions: () => table.filter(({ hidden }) => !hidden).map(({ path }) => path),
      },
    },
    load: async () => (await import('./commands/help.ts')).help,
  }),
  entry({
    path: 'version',
    section: 'This installation',
    brief: 'Print the version',
    usage: '',
    examples: [['jobman version', 'the same as jobman --version']],
    flags: {},
    args: nothing,
    load: async () => (await import('./commands/version.ts')).version,
  }),
];
