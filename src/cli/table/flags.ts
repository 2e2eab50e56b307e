// Flags of commands that take many. A command gets their values, whose types follow from them.

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
} from '../cluster-flags.ts';
import { jobIds, logSteps } from '../completion/proposals.ts';
import { choice, type FlagValues, mark, value, values, word, words } from '../flags.ts';
import {
  parseCount,
  parseDuration,
  parseDurationOrNever,
  parseFactor,
  parseHosts,
  parsePattern,
  parseWorker,
} from '../parse.ts';
import { phases } from '../../core/phase.ts';

/** Jobs by id or name. */
export const jobs = { name: 'job', summary: 'Id (1 is 000001) or name', many: true, propose: jobIds } as const;

export const jobName = word('The job of exactly this name, even if it looks like an id', 'name', 'j');

/** The namespace and context of a job of a cluster, if they are not the kubeconfig's. */
export const place = {
  namespace: value('A job of this namespace of a Kubernetes cluster', 'name', parseObjectName, 'n'),
  context: word('A job of the cluster of this context of the kubeconfig', 'context'),
};

/** Exit codes of a command that waits for jobs. */
export const verdict = {
  0: 'every job succeeded',
  1: 'one failed, was stopped or was cancelled',
  130: 'you left; the job goes on',
};

export const submitFlags = {
  image: word('The image, behind the prefix of the settings', 'image', 'i'),
  resourcesFlavor: word("A flavor's name, its file or its JSON", 'flavor', 'r'),
  jobName: value("The job's name; without it a new one", 'name', parseJobName, 'j'),
  annotations: word('Annotations of the Job: a JSON object of texts', 'json', 'a'),
  command: mark("The words behind `--` replace the image's entry point", 'c'),
  dryRun: mark('Print the Job as JSON, and ask no cluster'),
  follow: mark('Show progress and logs until the job has ended'),
  // As in kubectl, though -i is the image here: no image is called `t`.
  tty: mark('An interactive session: attach this terminal to the program; the same as -it', 't', '-it', '-ti'),
  stdin: mark('Feed standard input to the program, and print its log'),
  rm: mark('With -it or --stdin: delete the job when the session ends, for any reason'),
  file: word('A manifest or a whole Job, which flags override; `-` reads standard input', 'yaml', 'f'),
  set: words('Change one key of the manifest', 'key=value'),
  namespace: value('The namespace', 'name', parseObjectName, 'n'),
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
};
export type SubmitFlags = FlagValues<typeof submitFlags>;

export const createFlags = {
  config: word('The manifest, as a flag', 'yaml'),
  follow: mark('Show progress and logs until the job has ended', 'f'),
  dryRun: mark('Say what would be done, and do nothing'),
  set: words('Change one key of the manifest', 'key=value'),
  noFold: mark('With --follow: print equal lines of several workers each'),
  namespace: value('The namespace, for a manifest with a section kubernetes', 'name', parseObjectName, 'n'),
  context: word('The context of the kubeconfig, for such a manifest', 'context'),
  noCheck: mark('Create it also without a login to Google Cloud'),
  verbose: mark('With --dry-run: also print the script that runs the command in its environment'),
};
export type CreateFlags = FlagValues<typeof createFlags>;

export const listFlags = {
  user: word('Jobs of this user', 'user'),
  phase: { ...choice('Jobs in this phase; may be repeated', phases, 'word'), many: true as const },
  tag: word('Jobs with this tag', 'tag'),
  name: word('Jobs of this name, or of a pattern: vit-*', 'name'),
  all: mark('All settled jobs too', 'a'),
  watch: mark('Go on, and show changes', 'w'),
  namespace: value('The Jobs of this namespace of a Kubernetes cluster too', 'name', parseObjectName, 'n'),
  context: word('The Jobs of the cluster of this context of the kubeconfig too', 'context'),
  allNamespaces: mark('The Jobs of every namespace of the cluster', 'A'),
};
export type ListFlags = FlagValues<typeof listFlags>;

export const logsFlags = {
  follow: mark('Go on as lines come, until the job has ended', 'f'),
  worker: value('This worker only', 'n|here', parseWorker, 'w'),
  step: { ...word("A setup step's log instead; `job` and `tpu` are the job's own", 'name'), propose: logSteps },
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
};
export type LogsFlags = FlagValues<typeof logsFlags>;

export const tpusFlags = {
  all: mark('Every zone of the projects'),
  zone: word('This zone only', 'zone'),
  project: word('This project only', 'project'),
  forget: word('Stop asking about a project that only finished jobs used', 'project'),
};
export type TpusFlags = FlagValues<typeof tpusFlags>;

export const queueFlags = {
  publish: mark('Write the list of all active jobs into the ConfigMap of the settings (jobsQueue)'),
  allNamespaces: mark('Yours are your jobs in every namespace', 'A'),
  namespace: value("Your namespace, where it is not the context's", 'name', parseObjectName, 'n'),
  context: word('The context of the kubeconfig', 'context'),
};
export type QueueFlags = FlagValues<typeof queueFlags>;

export const emulatorServeFlags = {
  port: value('Port of the API', 'n', parseCount),
  sshPort: value("Port of the workers' SSH", 'n', parseCount),
  seed: value('Seed of its temper', 'n', parseCount),
  speed: value('How much faster than the real one', 'factor', parseFactor),
  state: word('Folder of its state', 'folder'),
  hosts: value('What its machines are: process or sshd', 'kind', parseHosts),
  gcsfuse: word("Google's own gcsfuse, for its workers", 'path'),
  schedule: word('Rehearsal file: what happens to it, and when', 'file'),
  idleExit: value('Leave when it was empty and unasked for this long', 'time|never', parseDurationOrNever),
};
export type EmulatorServeFlags = FlagValues<typeof emulatorServeFlags>;
