// Job result: the phase of a cluster job and its reason in one sentence, with evidence. Values in, a value out: the
// Job, its pods, the events of both, and the nodes if a pod is not scheduled. Phases are those of all jobs.

import { isFinishedPhase, type Phase } from '../../core/decide/phase.ts';
import { second, type Instant } from '../../core/model/time.ts';
import { pluralize, formatDuration, formatTime, formatWhen, type ReadingTime } from '../format.ts';
import type { ClusterNode, ClusterQuota } from './cluster.ts';
import type { ClusterContainer, ClusterEvent, ClusterJob, ClusterPod } from './objects.ts';
import { formatAmounts, formatMissingResources, findMissingResources } from './missing-resources.ts';
import { addQuantities, compareQuantities, parseQuantity, formatQuantity, zero } from './quantity.ts';

export interface ClusterObservation {
  readonly job: ClusterJob;
  readonly pods: readonly ClusterPod[];
  /** Of the Job and its pods, oldest first. */
  readonly events: readonly ClusterEvent[];
  /** False if we may not list events, so that an empty list proves nothing. Absent in the archive. */
  readonly mayListEvents?: boolean;
  /** Null if we may not list them or did not need them. */
  readonly quotas?: readonly ClusterQuota[] | null;
  readonly nodes: readonly ClusterNode[] | null;
  /** Pods of all namespaces, to compute free capacity on nodes; null as above. */
  readonly allPods: readonly ClusterPod[] | null;
}

export interface ClusterResult {
  readonly phase: Phase;
  readonly reasonText: string;
  readonly message: string;
  /** The cluster's message with its time; null if the numbers of the Job are the evidence. */
  readonly evidence: string | null;
}

/** The phase from the Job without its pods, for a list of thousands. */
export function clusterPhase(job: ClusterJob): Phase {
  if (hasCondition(job, 'Complete')) return 'succeeded';
  if (hasCondition(job, 'Failed')) return 'failed';
  if (job.deleting) return 'stopping';
  if (hasCondition(job, 'FailureTarget') || hasCondition(job, 'SuccessCriteriaMet')) return 'stopping';
  if (job.suspended) {
    if (job.queueName !== null) return 'queued';
    return (job.terminating ?? 0) > 0 ? 'stopping' : 'stopped';
  }
  if (job.ready > 0) return 'running';
  return job.failed > 0 ? 'recovering' : 'queued';
}

export function isClusterFinished(job: ClusterJob): boolean {
  return isFinishedPhase(clusterPhase(job)) && !job.suspended;
}

export function clusterReason(job: ClusterJob, now: Instant): string {
  const phase = clusterPhase(job);
  const ran = job.startedAt === null ? '' : formatDuration((job.endedAt ?? now) - job.startedAt);
  switch (phase) {
    case 'succeeded':
      return `took ${ran}`;
    case 'failed':
      return formatFailure(job);
    case 'running':
      return job.parallelism > 1
        ? `${job.ready} of ${pluralize(job.parallelism, 'pod')} for ${ran}`
        : `running for ${ran}`;
    case 'stopped':
      return 'suspended';
    case 'recovering':
      return `${pluralize(job.failed, 'pod')} failed; retrying`;
    case 'stopping':
      return job.deleting ? 'deleting' : formatEnding(job);
    default:
      if (job.suspended) return `waiting in the queue ${job.queueName ?? ''}`;
      return job.active === 0 ? 'no pod yet' : 'pod not running yet';
  }
}

function formatEnding({ terminating = 0 }: ClusterJob): string {
  if (terminating === 0) return 'its pods are terminating';
  return `${pluralize(terminating, 'pod')} ${terminating === 1 ? 'is' : 'are'} terminating`;
}

function formatDeadline({ deadline }: ClusterJob): string {
  return deadline === null || deadline === undefined
    ? 'exceeded its time limit (--timeout)'
    : `exceeded its time limit of ${formatDuration(deadline)} (--timeout)`;
}

function formatFailure(job: ClusterJob): string {
  const reason = conditionOf(job, 'Failed')?.reason ?? 'failed';
  const pods = job.failed === 1 ? 'its pod failed' : `${pluralize(job.failed, 'pod')} failed`;
  if (reason === 'BackoffLimitExceeded') return job.failed === 0 ? 'its pod is gone' : pods;
  return reason === 'DeadlineExceeded' ? formatDeadline(job) : reason;
}

/** Phase and phrase for a list, from the pods; null if they add nothing. Less exact than `clusterResult`. */
export function clusterSummary(
  job: ClusterJob,
  pods: readonly ClusterPod[],
  now: Instant,
): Pick<ClusterResult, 'phase' | 'reasonText'> | null {
  const phase = clusterPhase(job);
  if (phase === 'stopping' || job.suspended) return null;
  if (isFinishedPhase(phase)) {
    const reason = phase === 'failed' ? failedCause(job, pods) : formatRuntime(pods, now);
    const restarted = phase === 'failed' ? null : mostRestarted(pods);
    const suffix = restarted === null ? '' : `; restarted ${formatRestarts(restarted.container)}`;
    return reason === null ? null : { phase, reasonText: `${reason}${suffix}` };
  }
  const { running, stuck } = podsIn({ job, pods, events: [], nodes: null, allPods: null }, now);
  const [first] = stuck;
  if (running.length > 0) {
    const since = job.parallelism === 1 ? Math.min(...running.flatMap(startsOf)) : Number.NaN;
    const startedAt = Number.isFinite(since) ? since : job.startedAt;
    const reason = clusterReason({ ...job, startedAt, ready: Math.max(job.ready, running.length) }, now);
    const restarted = mostRestarted(running);
    const phrase = restarted === null ? reason : `${reason}; restarted ${formatRestarts(restarted.container)}`;
    return { phase: 'running', reasonText: first === undefined ? phrase : `${phrase}; another ${first.phrase}` };
  }
  if (first === undefined) return null;
  const phrase = first.shortPhrase ?? first.phrase;
  if (job.failed === 0) return { phase: first.phase, reasonText: phrase };
  return { phase: 'recovering', reasonText: `${pluralize(job.failed, 'pod')} failed; the next ${phrase}` };
}

export function startsOf({ containers }: ClusterPod): readonly Instant[] {
  return containers.flatMap(({ init, startedAt }) => (init || startedAt === null ? [] : [startedAt]));
}

function formatRuntime(pods: readonly ClusterPod[], now: Instant): string | null {
  const pod = pods.findLast(({ phase }) => phase === 'Succeeded');
  if (pod === undefined) return null;
  const began = Math.min(...startsOf(pod));
  if (!Number.isFinite(began)) return null;
  const ends = pod.containers.flatMap(({ init, endedAt }) => (init || endedAt === null ? [] : [endedAt]));
  return `ran for ${formatDuration(Math.max(began, ...(ends.length === 0 ? [now] : ends)) - began)}`;
}

function failedCause(job: ClusterJob, pods: readonly ClusterPod[]): string | null {
  if (conditionOf(job, 'Failed')?.reason === 'DeadlineExceeded') return null;
  const [pod] = failedPods(pods);
  if (pod === undefined) return null;
  const more = job.failed > 1 ? `, ${pluralize(job.failed, 'pod')} failed` : '';
  if (pod.reason !== null) return `${pod.reason}${more}`;
  const container = failedContainer(pod);
  const cause = container === undefined ? null : formatCause(container);
  return cause === null ? null : `${cause}${more}`;
}

/** The newest first. */
function failedPods(pods: readonly ClusterPod[]): readonly ClusterPod[] {
  return pods.filter(({ phase }) => phase === 'Failed').toSorted((one, other) => other.createdAt - one.createdAt);
}

type RunEnd = NonNullable<ClusterContainer['lastEnd']>;

function formatCause({ reason, exitCode, signal }: RunEnd): string | null {
  if (reason !== null && reason !== 'Error') return reason;
  if (signal !== null && signal > 0) return `signal ${signal}`;
  return exitCode === null ? null : `exit code ${exitCode}`;
}

interface Restarted {
  readonly pod: ClusterPod;
  readonly container: ClusterContainer;
}

function mostRestarted(pods: readonly ClusterPod[]): Restarted | null {
  const all = pods.flatMap((pod) => pod.containers.map((container) => ({ pod, container })));
  const [most] = all.toSorted((one, other) => other.container.restarts - one.container.restarts);
  return most === undefined || most.container.restarts === 0 ? null : most;
}

function formatRestarts(container: ClusterContainer): string {
  const { restarts, lastEnd = null } = container;
  const cause = lastEnd === null ? null : formatCause(lastEnd);
  return `${formatTimes(restarts)}${cause === null ? '' : ` (${cause})`}`;
}

export function formatRestarted(
  container: ClusterContainer,
  pod: ClusterPod,
  subject: string = formatProgram(pod, container),
): string | null {
  const { name, restarts, lastEnd = null } = container;
  if (restarts === 0) return null;
  const was = `${subject} was restarted ${formatTimes(restarts)}`;
  if (lastEnd === null) return was;
  return `${was}${restarts === 1 ? '' : ', last'} because it ${formatContainerEnd({ ...lastEnd, name }, pod)}`;
}

function formatTimes(restarts: number): string {
  return restarts === 1 ? 'once' : `${restarts} times`;
}

function formatProgram({ containers }: ClusterPod, { name }: ClusterContainer): string {
  return containers.length > 1 ? `the container ${name}` : 'its program';
}

/** A container that ran out of memory, else the first that failed. */
function failedContainer({ containers }: ClusterPod): ClusterContainer | undefined {
  const ended = containers.filter(({ state, exitCode }) => state === 'terminated' && exitCode !== 0);
  return ended.find(({ reason }) => reason === 'OOMKilled') ?? ended[0];
}

export function clusterResult(observation: ClusterObservation, reading: ReadingTime): ClusterResult {
  const { now } = reading;
  const { job } = observation;
  const phase = clusterPhase(job);
  const result = (phrase: string, evidence: string | null = null, other: Phase = phase): ClusterResult => ({
    phase: other,
    reasonText: phrase,
    message: `Job ${job.name} ${phrase}.`,
    evidence,
  });
  const when = (at: Instant | null): string => (at === null ? '' : ` ${formatWhen(at, reading)}`);
  if (phase === 'succeeded') {
    const program = job.parallelism === 1 && (job.completions ?? 1) === 1 ? formatRuntime(observation.pods, now) : null;
    const took =
      job.startedAt === null || job.endedAt === null ? '' : ` after ${formatDuration(job.endedAt - job.startedAt)}`;
    const again = mostRestarted(observation.pods);
    const restarted =
      again === null ? '' : `; ${formatRestarted(again.container, again.pod, program === null ? undefined : 'it')}`;
    return result(`succeeded${when(job.endedAt)}${program === null ? took : `; its program ${program}`}${restarted}`);
  }
  if (phase === 'failed') {
    const { phrase, evidence } = failureOf(observation, now);
    return result(`failed${when(job.endedAt)}: ${phrase}`, evidence);
  }
  if (job.deleting) return result('is being deleted: its pods are terminating');
  if (phase === 'stopping') {
    return result(
      `is ${job.suspended ? 'being stopped' : 'ending'}: ${formatEnding(job)}`,
      formatCondition(observation, 'FailureTarget', now),
    );
  }
  if (job.suspended) {
    return job.queueName === null
      ? result('is suspended and has no pods: it was stopped, or created with --suspend')
      : result(`waits in the queue ${job.queueName}, which has not admitted it`);
  }
  const { running, stuck } = podsIn(observation, now);
  const [first] = stuck;
  if (running.length > 0) {
    const began = Math.min(...running.flatMap((pod) => pod.containers.flatMap(({ startedAt }) => startedAt ?? [])));
    const runs = Number.isFinite(began) ? `has been running for ${formatDuration(now - began)}` : 'is running';
    const nodes = [...new Set(running.flatMap(({ node }) => node ?? []))];
    const where = nodes.length === 1 ? ` on node ${nodes[0]}` : ` on ${pluralize(nodes.length, 'node')}`;
    const many = job.parallelism > 1 ? ` with ${running.length} of ${pluralize(job.parallelism, 'pod')}` : '';
    const others = first === undefined ? '' : `; another ${first.phrase}`;
    const again = mostRestarted(running);
    const restarted = again === null ? '' : `; ${formatRestarted(again.container, again.pod)}`;
    return result(`${runs}${many}${where}${restarted}${others}`, first?.evidence ?? null, 'running');
  }
  const failure = failureOf(observation, now);
  const before = job.failed > 0 ? `is retrying after a failure (${failure.phrase}): the next pod ` : '';
  if (first !== undefined) {
    return result(`${before}${first.phrase}`, first.evidence, job.failed > 0 ? 'recovering' : first.phase);
  }
  const refused = observation.events.findLast(
    ({ object, reason }) => object.kind === 'Job' && reason === 'FailedCreate',
  );
  if (refused !== undefined) return result(formatPodRefusal(job, refused), formatClusterEvent(refused, now));
  if (observation.pods.length > 0 && job.failed === 0)
    return result('is ending: its pods have ended', null, 'stopping');
  if (job.failed > 0) return result(`is retrying after a failure: ${failure.phrase}`, failure.evidence);
  const age = now - (job.startedAt ?? job.createdAt);
  if (age < podCreationTime) return result('has no pod yet: it was just created');
  for (const quota of observation.quotas ?? []) {
    const shortage = quotaShortage(job, quota);
    if (shortage !== null)
      return result(`gets no pod: it exceeds the quota ${quota.name} of the namespace ${job.namespace} (${shortage})`);
  }
  const since = `has no pod ${formatDuration(age)} after its start`;
  if (observation.mayListEvents === false) {
    return result(
      `${since}; only its events give the reason`,
      `The permission \`list\` on events in ${job.namespace} is missing; the administrator of the cluster can grant it.`,
    );
  }
  return result(`${since}, and no event gives the reason`);
}

function quotaShortage({ requests }: ClusterJob, { hard, used }: ClusterQuota): string | null {
  for (const [name, most] of Object.entries(hard)) {
    const resource = name === 'cpu' || name === 'memory' ? name : /^requests\.(.+)$/.exec(name)?.[1];
    const asks =
      name === 'pods' || name === 'count/pods' ? '1' : resource === undefined ? undefined : requests[resource];
    if (asks === undefined) continue;
    const [room, inUse, wanted] = [most, used[name] ?? '0', asks].map((amount) => parseQuantity(amount) ?? zero);
    if (room === undefined || inUse === undefined || wanted === undefined) continue;
    if (compareQuantities(addQuantities(inUse, wanted), room) > 0) {
      return `${name}: ${formatQuantity(inUse)} of ${formatQuantity(room)} used, ${formatQuantity(wanted)} requested`;
    }
  }
  return null;
}

function formatPodRefusal({ namespace }: ClusterJob, { message }: ClusterEvent): string {
  const quota = /exceeded quota: ([^,]+), (.+)$/.exec(message);
  return quota === null
    ? 'gets no pod: the cluster refuses to create one'
    : `gets no pod: the quota ${quota[1]} of the namespace ${namespace} is used up (${quota[2]})`;
}

/** Longest time that a cluster needs to create a pod or to report why it cannot. */
const podCreationTime = 30 * second;

function podsIn(
  observation: ClusterObservation,
  now: Instant,
): {
  readonly running: readonly ClusterPod[];
  readonly stuck: readonly ReturnType<typeof stuckPodOf>[];
} {
  const alive = observation.pods.filter((pod) => !hasPodEnded(pod) && !pod.deleting);
  const running = alive.filter((pod) => pod.containers.some((one) => !one.init && one.state === 'running'));
  return {
    running,
    stuck: alive.filter((pod) => !running.includes(pod)).map((pod) => stuckPodOf(pod, observation, now)),
  };
}

/** The programs have ended; the pod's phase may follow a second or two later. */
function hasPodEnded({ phase, containers }: ClusterPod): boolean {
  const usual = containers.filter(({ init }) => !init);
  return (
    phase === 'Succeeded' ||
    phase === 'Failed' ||
    (usual.length > 0 && usual.every((one) => one.state === 'terminated' && !willRestart(one)))
  );
}

/** The container failed again after a restart, and Kubernetes will restart it. */
function willRestart({ state, exitCode, restarts }: ClusterContainer): boolean {
  return state === 'terminated' && exitCode !== 0 && restarts > 0;
}

// ------------------------------------------------------------------------------------------ failures

interface ClusterFinding {
  readonly phrase: string;
  readonly evidence: string | null;
}

function failureOf(observation: ClusterObservation, now: Instant): ClusterFinding {
  const { job, pods } = observation;
  const condition = conditionOf(job, 'Failed');
  const evidence = formatCondition(observation, 'Failed', now);
  if (condition?.reason === 'DeadlineExceeded') return { phrase: `it ${formatDeadline(job)}`, evidence };
  const failed = failedPods(pods);
  const [pod] = failed;
  if (pod === undefined) {
    const message = condition?.message ?? 'its pod failed';
    return { phrase: `${uncapitalize(message)}; its pod is gone`, evidence };
  }
  const earlier = failed.length - 1;
  const others =
    earlier === 0 ? '' : ` (${earlier === 1 ? 'an earlier pod' : pluralize(earlier, 'earlier pod')} failed too)`;
  if (pod.reason === 'Evicted') {
    return {
      phrase: `its pod was evicted from node ${pod.node ?? ''}${others}`,
      evidence: pod.message ?? evidence,
    };
  }
  const container = failedContainer(pod);
  if (container === undefined) return { phrase: uncapitalize(pod.message ?? pod.reason ?? 'its pod failed'), evidence };
  return {
    phrase: `${formatProgram(pod, container)} ${formatContainerEnd(container, pod)}${others}`,
    evidence: container.message ?? evidence,
  };
}

function formatContainerEnd(
  { name, reason, exitCode, signal }: RunEnd & Pick<ClusterContainer, 'name'>,
  pod: ClusterPod,
): string {
  if (reason === 'OOMKilled') {
    const [limit, request] = [pod.limits?.[name], pod.requests['memory']];
    const amounts = [
      ...(limit === undefined ? [] : [`limit ${limit}`]),
      ...(request === undefined || request === limit ? [] : [`request ${request}`]),
    ];
    return `ran out of memory and was killed (${['OOMKilled', ...amounts].join(', ')})`;
  }
  if (reason === 'StartError' || reason === 'ContainerCannotRun') return 'could not be started';
  if (signal !== null && signal > 0) return `was ended by signal ${signal}`;
  return `ended with exit code ${exitCode ?? 'unknown'}`;
}

// ------------------------------------------------------------------------------------------ causes of waiting

const imageReasons = ['ErrImagePull', 'ImagePullBackOff', 'InvalidImageName', 'ErrImageNeverPull', 'ImageInspectError'];

type StuckPod = ClusterFinding & { readonly phase: Phase; readonly shortPhrase?: string };

function stuckPodOf(pod: ClusterPod, observation: ClusterObservation, now: Instant): StuckPod {
  const scheduled = pod.conditions.find(({ type }) => type === 'PodScheduled');
  const podEvents = observation.events.filter(({ object }) => object.uid === pod.uid);
  if (scheduled?.status === 'False') {
    const message = scheduled.message ?? '';
    const evidence = formatQuoted(scheduled.reason ?? 'Unschedulable', message, scheduled.at, now);
    if (scheduled.reason === 'SchedulingGated')
      return { phrase: 'waits for its scheduling gates', evidence, phase: 'queued' };
    return { phrase: formatUnscheduled(pod, message, observation), evidence, phase: 'queued' };
  }
  if (pod.node === null) return { phrase: 'waits for a node', evidence: null, phase: 'queued' };
  const waiting = pod.containers.find(
    (one) => willRestart(one) || (one.state === 'waiting' && one.reason !== null && !normalWaitReasons.has(one.reason)),
  );
  const warning = podEvents.findLast(({ type }) => type === 'Warning');
  if (waiting === undefined) {
    const warned = warning === undefined ? null : formatClusterEvent(warning, now);
    const first = pod.containers.find(({ init, state }) => init && state === 'running');
    const phrase =
      first === undefined ? `is being set up on node ${pod.node}` : `runs its init container ${first.name}`;
    return { phrase, evidence: warned, phase: 'setup' };
  }
  const { reason, message, image, name } = waiting;
  const failing = podEvents.findLast(
    ({ reason: of, message: eventMessage }) => of === 'Failed' && eventMessage.includes('pull'),
  );
  const cause = failing ?? (willRestart(waiting) ? warning : undefined);
  const evidence =
    cause === undefined ? formatQuoted(reason ?? '', message ?? '', null, now) : formatClusterEvent(cause, now);
  if (imageReasons.includes(reason ?? ''))
    return { phrase: `cannot pull its image ${image}`, evidence, phase: 'setup' };
  if (reason === 'CrashLoopBackOff' || willRestart(waiting)) {
    const end = willRestart(waiting) ? waiting : (waiting.lastEnd ?? null);
    const times = waiting.restarts === 0 ? [] : [`restarted ${formatTimes(waiting.restarts)}`];
    const short = [...(end === null ? [] : [formatCause(end) ?? 'failed']), ...times].join(', ');
    const how = end === null ? '' : `: ${formatProgram(pod, waiting)} ${formatContainerEnd({ ...end, name }, pod)}`;
    return {
      phrase: `keeps failing${times.length === 0 ? '' : ` (${times[0]})`}${how}; it restarts after a pause`,
      shortPhrase: `keeps failing${short === '' ? '' : ` (${short})`}`,
      evidence,
      phase: 'recovering',
    };
  }
  return { phrase: `cannot start its container ${name}: ${message ?? reason ?? ''}`, evidence, phase: 'setup' };
}

const normalWaitReasons = new Set(['ContainerCreating', 'PodInitializing']);

function formatUnscheduled(pod: ClusterPod, message: string, { nodes, allPods }: ClusterObservation): string {
  // Full nodes are not the cause if the scheduler names another one, such as a missing volume.
  const isFull = nodes !== null && allPods !== null && (message === '' || message.includes('Insufficient '));
  const shortage = isFull ? findMissingResources(pod, nodes, allPods) : undefined;
  if (shortage !== undefined) {
    return shortage.absent.length > 0
      ? `finds no node: ${formatMissingResources(shortage)}`
      : `waits for room: ${formatMissingResources(shortage)}`;
  }
  const short = [...message.matchAll(/(\d+) Insufficient ([^,.\s]+(?:\.[^,.\s]+)*)/g)].map(([, count, name]) => ({
    count,
    name,
  }));
  const asks = formatAmounts(
    Object.fromEntries(
      short.flatMap(({ name = '' }) => (pod.requests[name] === undefined ? [] : [[name, pod.requests[name]]])),
    ),
  );
  if (short.length > 0) {
    const [, all] = /^0\/(\d+) nodes/.exec(message) ?? [];
    const names = short.map(
      ({ count, name }) => `${name} on ${count}${all === undefined ? '' : ` of ${pluralize(Number(all), 'node')}`}`,
    );
    const [one] = short;
    // Without the nodes we cannot see if any has the resource; this sentence is true in both cases.
    if (short.length === 1 && one?.count === all && one?.name?.includes('/') === true) {
      return `waits for room: it requests ${asks}, and no node has enough ${one.name}`;
    }
    return `waits for room: it requests ${asks}, and there is too little ${names.join(', ')}`;
  }
  if (message.includes('node affinity/selector')) return 'finds no node with the requested labels';
  if (message.includes('untolerated taint')) return 'finds no node whose taints it tolerates';
  const [claim] =
    /persistentvolumeclaim "[^"]+" not found|unbound immediate PersistentVolumeClaims/.exec(message) ?? [];
  if (claim !== undefined) return `waits for its volume: ${claim}`;
  return 'finds no node';
}

// ------------------------------------------------------------------------------------------ phrases

function hasCondition(job: ClusterJob, type: string): boolean {
  return conditionOf(job, type)?.status === 'True';
}

function conditionOf({ conditions }: ClusterJob, type: string) {
  return conditions.find((condition) => condition.type === type);
}

function formatCondition({ job }: ClusterObservation, type: string, now: Instant): string | null {
  const condition = conditionOf(job, type);
  return condition === undefined
    ? null
    : formatQuoted(condition.reason ?? type, condition.message ?? '', condition.at, now);
}

function formatClusterEvent({ reason, message, lastAt, count }: ClusterEvent, now: Instant): string {
  return formatQuoted(reason, message, lastAt, now) + (count > 1 ? `, ${count} times` : '');
}

function formatQuoted(reason: string, message: string, at: Instant | null, now: Instant): string {
  return `${reason}${message === '' ? '' : `: ${message}`}${at === null ? '' : ` (${formatTime(at, now)})`}`;
}

function uncapitalize(sentence: string): string {
  return `${sentence[0]?.toLowerCase() ?? ''}${sentence.slice(1).replace(/\.$/, '')}`;
}
