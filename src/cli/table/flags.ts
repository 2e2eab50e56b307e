import {
  parseQuantityText,
  parseGpus,
  parseJobName,
  parseLabel,
  parseObjectName,
  parsePodCount,
  parsePositiveQuantity,
  parseSecret,
  parseToleration,
  parseTtl,
  parseVariable,
  parseVolume,
} from '../cluster-flags.ts';
import { jobIds, logSteps } from '../completion/proposals.ts';
import {
  choiceFlag,
  type FlagValues,
  boolFlag,
  valueFlag,
  valueListFlag,
  stringFlag,
  stringListFlag,
} from '../flags.ts';
import {
  parseCount,
  parseDuration,
  parseDurationOrNever,
  parseFactor,
  parseHostKind,
  parsePattern,
  parseWorker,
} from '../parse.ts';
import { phases } from '../../core/decide/phase.ts';

export const jobs = { name: 'job', summary: 'Id (1 is 000001) or name', many: true, propose: jobIds } as const;

export const jobName = stringFlag('The job of exactly this name, even if it looks like an id', 'name', 'j');

export const contextFlags = {
  namespace: valueFlag('A job of this namespace of a Kubernetes cluster', 'name', parseObjectName, 'n'),
  context: stringFlag('A job of the cluster of this context of the kubeconfig', 'context'),
};

export const verdictExitCodes = {
  0: 'every job succeeded',
  1: 'one failed, was stopped or was cancelled',
  130: 'you left; the job goes on',
};

export const submitFlags = {
  image: stringFlag('The image, behind the prefix of the settings', 'image', 'i'),
  resourcesFlavor: stringFlag("A flavor's name, its file or its JSON", 'flavor', 'r'),
  jobName: valueFlag("The job's name; without it a new one", 'name', parseJobName, 'j'),
  annotations: stringFlag('Annotations of the Job: a JSON object of texts', 'json', 'a'),
  command: boolFlag("The words behind `--` replace the image's entry point", 'c'),
  dryRun: boolFlag('Print the Job as JSON, and ask no cluster'),
  follow: boolFlag('Show progress and logs until the job has ended'),
  // As in kubectl, though -i is the image here: no image is called `t`.
  tty: boolFlag('An interactive session: attach this terminal to the program; the same as -it', 't', '-it', '-ti'),
  stdin: boolFlag('Feed standard input to the program, and print its log'),
  rm: boolFlag('With -it or --stdin: delete the job when the session ends, for any reason'),
  file: stringFlag('A manifest or a whole Job, which flags override; `-` reads standard input', 'yaml', 'f'),
  set: stringListFlag('Change one key of the manifest', 'key=value'),
  namespace: valueFlag('The namespace', 'name', parseObjectName, 'n'),
  context: stringFlag('The context of the kubeconfig', 'context'),
  env: valueListFlag('A variable of the program; without a value the one it has here', 'name[=value]', parseVariable),
  secret: valueListFlag('A key of a Secret of the cluster as a variable', 'name:key=variable', parseSecret),
  workdir: stringFlag('Folder of the image that it starts in', 'path'),
  cpu: valueFlag("CPUs of each pod, in place of the flavor's", 'amount', parsePositiveQuantity),
  memory: valueFlag("Memory of each pod, in place of the flavor's", 'amount', parsePositiveQuantity),
  gpus: valueFlag('GPUs of each pod, and their model as nodes are labelled', 'n[:model]', parseGpus),
  shm: valueFlag('Size of /dev/shm', 'amount', parseQuantityText),
  volume: valueListFlag('A PersistentVolumeClaim, and where it appears', 'claim:path[:ro]', parseVolume),
  serviceAccount: valueFlag('The ServiceAccount that the pods act as', 'name', parseObjectName),
  label: valueListFlag('A label of the Job and of its pods', 'key=value', parseLabel),
  nodeSelector: valueListFlag('A label that the node must have', 'key=value', parseLabel),
  toleration: valueListFlag('A taint that the pods tolerate', 'key[=value][:effect]', parseToleration),
  priorityClass: valueFlag('The PriorityClass of the pods', 'name', parseObjectName),
  imagePullSecret: valueListFlag('A Secret with the login of the registry', 'name', parseObjectName),
  parallelism: valueFlag('How many pods run at once', 'n', parsePodCount),
  completions: valueFlag('How many pods have to succeed', 'n', parsePodCount),
  backoffLimit: valueFlag('How many failed pods are replaced', 'n', parseCount),
  timeout: valueFlag('Kubernetes ends it after this time', 'time', parseDuration),
  ttl: valueFlag('Kubernetes removes it this long after its end; 7d unless the settings differ', 'time|none', parseTtl),
  suspend: boolFlag('Create it without starting it'),
  queue: valueFlag('The queue of Kueue that it waits in', 'name', parseObjectName),
};
export type SubmitFlags = FlagValues<typeof submitFlags>;

export const createFlags = {
  config: stringFlag('The manifest, as a flag', 'yaml'),
  follow: boolFlag('Show progress and logs until the job has ended', 'f'),
  dryRun: boolFlag('Say what would be done, and do nothing'),
  set: stringListFlag('Change one key of the manifest', 'key=value'),
  noFold: boolFlag('With --follow: print equal lines of several workers each'),
  namespace: valueFlag('The namespace, for a manifest with a section kubernetes', 'name', parseObjectName, 'n'),
  context: stringFlag('The context of the kubeconfig, for such a manifest', 'context'),
  noCheck: boolFlag('Create it also without a login to Google Cloud'),
  verbose: boolFlag('With --dry-run: also print the script that runs the command in its environment'),
};
export type CreateFlags = FlagValues<typeof createFlags>;

export const listFlags = {
  user: stringFlag('Jobs of this user', 'user'),
  phase: { ...choiceFlag('Jobs in this phase; may be repeated', phases, 'word'), many: true as const },
  tag: stringFlag('Jobs with this tag', 'tag'),
  name: stringFlag('Jobs of this name, or of a pattern: vit-*', 'name'),
  all: boolFlag('All settled jobs too', 'a'),
  watch: boolFlag('Go on, and show changes', 'w'),
  namespace: valueFlag('The Jobs of this namespace of a Kubernetes cluster too', 'name', parseObjectName, 'n'),
  context: stringFlag('The Jobs of the cluster of this context of the kubeconfig too', 'context'),
  allNamespaces: boolFlag('The Jobs of every namespace of the cluster', 'A'),
};
export type ListFlags = FlagValues<typeof listFlags>;

export const logsFlags = {
  follow: boolFlag('Go on as lines come, until the job has ended', 'f'),
  worker: valueFlag('This worker only', 'n|controller', parseWorker, 'w'),
  step: { ...stringFlag("A setup step's log instead; `job` and `tpu` are the job's own", 'name'), propose: logSteps },
  attempt: valueFlag('This attempt instead of the newest', 'n', parseCount),
  tail: valueFlag('The last lines of each worker', 'lines', parseCount),
  grep: valueFlag('Only lines in which this regular expression is found', 'pattern', parsePattern),
  noFold: boolFlag('Print equal lines of several workers each'),
  firstError: boolFlag('Only the first error over all workers, with the lines around it'),
  raw: boolFlag('Bytes as they are, without numbers in front'),
  container: stringFlag('In a cluster: this container of the pod', 'name'),
  allContainers: boolFlag('In a cluster: every container of the pod, with its name in front'),
  previous: boolFlag('In a cluster: what the container printed before it was started anew'),
  allPods: boolFlag('In a cluster: every pod of the job, with its number or the end of its name in front'),
  since: valueFlag('In a cluster: only what was printed in this time', 'time', parseDuration),
  jobName,
  ...contextFlags,
};
export type LogsFlags = FlagValues<typeof logsFlags>;

export const tpusFlags = {
  all: boolFlag('Every zone of the projects'),
  zone: stringFlag('This zone only', 'zone'),
  project: stringFlag('This project only', 'project'),
  forget: stringFlag('Stop asking about a project that only finished jobs used', 'project'),
};
export type TpusFlags = FlagValues<typeof tpusFlags>;

export const queueFlags = {
  publish: boolFlag('Write the list of all active jobs into the ConfigMap of the settings (jobsQueue)'),
  allNamespaces: boolFlag('Yours are your jobs in every namespace', 'A'),
  namespace: valueFlag("Your namespace, where it is not the context's", 'name', parseObjectName, 'n'),
  context: stringFlag('The context of the kubeconfig', 'context'),
};
export type QueueFlags = FlagValues<typeof queueFlags>;

export const emulatorServeFlags = {
  port: valueFlag('Port of the API', 'n', parseCount),
  sshPort: valueFlag("Port of the workers' SSH", 'n', parseCount),
  seed: valueFlag('Seed of its temper', 'n', parseCount),
  speed: valueFlag('How much faster than the real one', 'factor', parseFactor),
  state: stringFlag('Folder of its state', 'folder'),
  hosts: valueFlag('What its machines are: process or sshd', 'kind', parseHostKind),
  gcsfuse: stringFlag("Google's own gcsfuse, for its workers", 'path'),
  schedule: stringFlag('Rehearsal file: what happens to it, and when', 'file'),
  idleExit: valueFlag('Leave when it was empty and unasked for this long', 'time|never', parseDurationOrNever),
};
export type EmulatorServeFlags = FlagValues<typeof emulatorServeFlags>;
