// Verdict: in which phase a job of a cluster is, and why, in one sentence with what it rests on. Values in, a value out: the
// Job, its pods, the events of both, and where a pod finds no place the nodes. Phases are those of all jobs.

import { isSettledPhase, type Phase } from '../../core/phase.ts';
import { second, type Instant } from '../../core/time.ts';
import { countText, lengthText, momentText } from '../figures.ts';
import type { ClusterContainer, ClusterEvent, ClusterJob, ClusterNode, ClusterPod, ClusterQuota } from './cluster.ts';
import { amountsText, lackText, lackOf } from './lack.ts';
import { addQuantities, compareQuantities, parseQuantity, quantityText, zero } from './quantity.ts';

/** All that was seen of one job. */
export interface ClusterSight {
  readonly job: ClusterJob;
  readonly pods: readonly ClusterPod[];
  /** Of the Job and of its pods, oldest first. */
  readonly events: readonly ClusterEvent[];
  /** False where we may not list events, so that none does not mean none. Absent in what is kept. */
  readonly mayListEvents?: boolean;
  /** Null where we may not list them, or did not need them. */
  readonly quotas?: readonly ClusterQuota[] | null;
  readonly nodes: readonly ClusterNode[] | null;
  /** Pods of all namespaces, for what is free on the nodes; null as above. */
  readonly neighbours: readonly ClusterPod[] | null;
}

/** The verdict. */
export interface ClusterVerdict {
  readonly phase: Phase;
  /** One phrase, for a list. */
  readonly reason: string;
  readonly sentence: string;
  /** The cluster's own words that it rests on, with their moment; null where the numbers of the Job say it. */
  readonly because: string | null;
}

/** The phase alone, as far as a Job tells it without its pods: what a list of thousands shows. */
export function clusterPhase(job: ClusterJob): Phase {
  if (holds(job, 'Complete')) return 'succeeded';
  if (holds(job, 'Failed')) return 'failed';
  if (job.deleting) return 'stopping';
  if (holds(job, 'FailureTarget') || holds(job, 'SuccessCriteriaMet')) return 'stopping';
  if (job.suspended) {
    if (job.queueName !== null) return 'queued';
    return (job.terminating ?? 0) > 0 ? 'stopping' : 'stopped';
  }
  if (job.ready > 0) return 'running';
  return job.failed > 0 ? 'recovering' : 'queued';
}

/** Whether the cluster will do no more about it. */
export function isClusterSettled(job: ClusterJob): boolean {
  return isSettledPhase(clusterPhase(job)) && !job.suspended;
}

/** The phrase of a list, without the pods. */
export function clusterReason(job: ClusterJob, now: Instant): string {
  const phase = clusterPhase(job);
  const ran = job.startedAt === null ? '' : lengthText((job.endedAt ?? now) - job.startedAt);
  switch (phase) {
    case 'succeeded':
      return `took ${ran}`;
    case 'failed':
      return failedReason(job);
    case 'running':
      return job.parallelism > 1 ? `${job.ready} of ${countText(job.parallelism, 'pod')}, ${ran}` : `for ${ran}`;
    case 'stopped':
      return 'suspended';
    case 'recovering':
      return `${countText(job.failed, 'pod')} failed; another is tried`;
    case 'stopping':
      return job.deleting ? 'being deleted' : endingText(job);
    default:
      if (job.suspended) return `waits in the queue ${job.queueName ?? ''}`;
      return job.active === 0 ? 'has no pod yet' : 'its pod does not run yet';
  }
}

function endingText({ terminating = 0 }: ClusterJob): string {
  if (terminating === 0) return 'its pods are being ended';
  return `${countText(terminating, 'pod')} ${terminating === 1 ? 'is' : 'are'} terminating`;
}

function deadlineText({ deadline }: ClusterJob): string {
  return deadline === null || deadline === undefined
    ? 'ran longer than its limit (--timeout)'
    : `ran longer than its limit of ${lengthText(deadline)} (--timeout)`;
}

function failedReason(job: ClusterJob): string {
  const reason = conditionOf(job, 'Failed')?.reason ?? 'failed';
  const pods = job.failed === 1 ? 'its pod failed' : `${countText(job.failed, 'pod')} failed`;
  if (reason === 'BackoffLimitExceeded') return job.failed === 0 ? 'its pod is gone' : pods;
  return reason === 'DeadlineExceeded' ? deadlineText(job) : reason;
}

/** The phase and phrase of a list by pods that have not ended; null where they add nothing. Without events and nodes it says less than the verdict. */
export function clusterGlance(
  job: ClusterJob,
  pods: readonly ClusterPod[],
  now: Instant,
): Pick<ClusterVerdict, 'phase' | 'reason'> | null {
  const phase = clusterPhase(job);
  if (phase === 'stopping' || job.suspended) return null;
  if (isSettledPhase(phase)) {
    const reason = phase === 'failed' ? failedCause(job, pods) : ranText(pods, now);
    const again = phase === 'failed' ? null : mostRestarted(pods);
    const restarted = again === null ? '' : `; restarted ${restartsText(again.container)}`;
    return reason === null ? null : { phase, reason: `${reason}${restarted}` };
  }
  const { running, stuck } = podsIn({ job, pods, events: [], nodes: null, neighbours: null }, now);
  const [first] = stuck;
  if (running.length > 0) {
    const since = job.parallelism === 1 ? Math.min(...running.flatMap(startsOf)) : Number.NaN;
    const startedAt = Number.isFinite(since) ? since : job.startedAt;
    const reason = clusterReason({ ...job, startedAt, ready: Math.max(job.ready, running.length) }, now);
    const again = mostRestarted(running);
    const told = again === null ? reason : `${reason}; restarted ${restartsText(again.container)}`;
    return { phase: 'running', reason: first === undefined ? told : `${told}; another ${first.told}` };
  }
  if (first === undefined) return null;
  const told = first.short ?? first.told;
  if (job.failed === 0) return { phase: first.phase, reason: told };
  return { phase: 'recovering', reason: `${countText(job.failed, 'pod')} failed; the next ${told}` };
}

function startsOf({ containers }: ClusterPod): readonly Instant[] {
  return containers.flatMap(({ init, startedAt }) => (init || startedAt === null ? [] : [startedAt]));
}

function ranText(pods: readonly ClusterPod[], now: Instant): string | null {
  const pod = pods.findLast(({ phase }) => phase === 'Succeeded');
  if (pod === undefined) return null;
  const began = Math.min(...startsOf(pod));
  if (!Number.isFinite(began)) return null;
  const ends = pod.containers.flatMap(({ init, endedAt }) => (init || endedAt === null ? [] : [endedAt]));
  return `ran ${lengthText(Math.max(began, ...(ends.length === 0 ? [now] : ends)) - began)}`;
}

/** The cause as `kubectl get pods` names it; null where the Job itself says more. */
function failedCause(job: ClusterJob, pods: readonly ClusterPod[]): string | null {
  if (conditionOf(job, 'Failed')?.reason === 'DeadlineExceeded') return null;
  const [pod] = pods
    .filter(({ phase }) => phase === 'Failed')
    .toSorted((one, other) => other.createdAt - one.createdAt);
  if (pod === undefined) return null;
  const more = job.failed > 1 ? `, ${countText(job.failed, 'pod')} failed` : '';
  if (pod.reason !== null) return `${pod.reason}${more}`;
  const container = failedContainer(pod);
  const cause = container === undefined ? null : causeText(container);
  return cause === null ? null : `${cause}${more}`;
}

type RunEnd = NonNullable<ClusterContainer['lastEnd']>;

function causeText({ reason, exitCode, signal }: RunEnd): string | null {
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

function restartsText(container: ClusterContainer): string {
  const { restarts, lastEnd = null } = container;
  const cause = lastEnd === null ? null : causeText(lastEnd);
  return `${timesText(restarts)}${cause === null ? '' : ` (${cause})`}`;
}

/** `its program was restarted 3 times, last because it ended with exit code 3`; null where it was never restarted. */
export function restartedText(
  container: ClusterContainer,
  pod: ClusterPod,
  subject: string = calledIn(pod, container),
): string | null {
  const { name, restarts, lastEnd = null } = container;
  if (restarts === 0) return null;
  const was = `${subject} was restarted ${timesText(restarts)}`;
  if (lastEnd === null) return was;
  return `${was}${restarts === 1 ? '' : ', last'} because it ${endText({ ...lastEnd, name }, pod)}`;
}

function timesText(restarts: number): string {
  return restarts === 1 ? 'once' : `${restarts} times`;
}

function calledIn({ containers }: ClusterPod, { name }: ClusterContainer): string {
  return containers.length > 1 ? `the container ${name}` : 'its program';
}

/** The container that ended the pod: one that used too much memory, else the first that failed. */
function failedContainer({ containers }: ClusterPod): ClusterContainer | undefined {
  const ended = containers.filter(({ state, exitCode }) => state === 'terminated' && exitCode !== 0);
  return ended.find(({ reason }) => reason === 'OOMKilled') ?? ended[0];
}

/** The verdict. A sentence begins with the job's name. */
export function clusterVerdict(sight: ClusterSight, now: Instant): ClusterVerdict {
  const { job } = sight;
  const phase = clusterPhase(job);
  const tell = (told: string, because: string | null = null, other: Phase = phase): ClusterVerdict => ({
    phase: other,
    reason: told,
    sentence: `${job.name} ${told}.`,
    because,
  });
  const ago = (at: Instant | null): string => (at === null ? '' : ` ${lengthText(now - at)} ago`);
  if (phase === 'succeeded') {
    const program = job.parallelism === 1 && (job.completions ?? 1) === 1 ? ranText(sight.pods, now) : null;
    const took =
      job.startedAt === null || job.endedAt === null ? '' : ` after ${lengthText(job.endedAt - job.startedAt)}`;
    const again = mostRestarted(sight.pods);
    const restarted =
      again === null ? '' : `; ${restartedText(again.container, again.pod, program === null ? undefined : 'it')}`;
    return tell(`succeeded${ago(job.endedAt)}${program === null ? took : `; its program ${program}`}${restarted}`);
  }
  if (phase === 'failed') {
    const { told, because } = failureOf(sight, now);
    return tell(`failed${ago(job.endedAt)}: ${told}`, because);
  }
  if (job.deleting) return tell('is being deleted; its pods are being ended');
  if (phase === 'stopping') {
    return tell(
      `is ${job.suspended ? 'being stopped' : 'ending'}: ${endingText(job)}`,
      conditionText(sight, 'FailureTarget', now),
    );
  }
  if (job.suspended) {
    return job.queueName === null
      ? tell('is suspended: it was stopped, or created with --suspend, and has no pods')
      : tell(`waits in the queue ${job.queueName}, which has not admitted it`);
  }
  const { running, stuck } = podsIn(sight, now);
  const [first] = stuck;
  if (running.length > 0) {
    const began = Math.min(...running.flatMap((pod) => pod.containers.flatMap(({ startedAt }) => startedAt ?? [])));
    const since = Number.isFinite(began) ? ` for ${lengthText(now - began)}` : '';
    const nodes = [...new Set(running.flatMap(({ node }) => node ?? []))];
    const where = nodes.length === 1 ? ` on the node ${nodes[0]}` : ` on ${countText(nodes.length, 'node')}`;
    const many = job.parallelism > 1 ? ` with ${running.length} of ${countText(job.parallelism, 'pod')}` : '';
    const others = first === undefined ? '' : `; another ${first.told}`;
    const again = mostRestarted(running);
    const restarted = again === null ? '' : `; ${restartedText(again.container, again.pod)}`;
    return tell(`runs${many}${since}${where}${restarted}${others}`, first?.because ?? null, 'running');
  }
  const failure = failureOf(sight, now);
  const before = job.failed > 0 ? `goes on after a failure (${failure.told}): the next pod ` : '';
  if (first !== undefined) {
    return tell(`${before}${first.told}`, first.because, job.failed > 0 ? 'recovering' : first.phase);
  }
  const refused = sight.events.findLast(({ object, reason }) => object.kind === 'Job' && reason === 'FailedCreate');
  if (refused !== undefined) return tell(refusedText(job, refused), eventText(refused, now));
  if (sight.pods.length > 0 && job.failed === 0)
    return tell('is ending: its pods have ended, and the cluster counts them', null, 'stopping');
  if (job.failed > 0) return tell(`goes on after a failure: ${failure.told}`, failure.because);
  const age = now - (job.startedAt ?? job.createdAt);
  if (age < soon) return tell('has no pod yet: the cluster has just taken it');
  for (const quota of sight.quotas ?? []) {
    const lack = quotaLack(job, quota);
    if (lack !== null)
      return tell(`gets no pod: the quota ${quota.name} of ${job.namespace} has no room for it (${lack})`);
  }
  const since = `has no pod ${lengthText(age)} after its start`;
  if (sight.mayListEvents === false) {
    return tell(
      `${since}; its events say why`,
      `Missing is the right \`list\` on events in ${job.namespace}; whoever runs the cluster can grant it.`,
    );
  }
  return tell(`${since}, and no event of the cluster says why`);
}

function quotaLack({ requests }: ClusterJob, { hard, used }: ClusterQuota): string | null {
  for (const [name, most] of Object.entries(hard)) {
    const resource = name === 'cpu' || name === 'memory' ? name : /^requests\.(.+)$/.exec(name)?.[1];
    const asks =
      name === 'pods' || name === 'count/pods' ? '1' : resource === undefined ? undefined : requests[resource];
    if (asks === undefined) continue;
    const [room, taken, wanted] = [most, used[name] ?? '0', asks].map((amount) => parseQuantity(amount) ?? zero);
    if (room === undefined || taken === undefined || wanted === undefined) continue;
    if (compareQuantities(addQuantities(taken, wanted), room) > 0) {
      return `${name}: ${quantityText(taken)} of ${quantityText(room)} are used, and it asks for ${quantityText(wanted)}`;
    }
  }
  return null;
}

/** The phrase for a job for which the cluster refuses to create a pod. */
export function refusedText({ namespace }: ClusterJob, { message }: ClusterEvent): string {
  const quota = /exceeded quota: ([^,]+), (.+)$/.exec(message);
  return quota === null
    ? 'gets no pod: the cluster refuses to create one'
    : `gets no pod: the quota ${quota[1]} of ${namespace} is used up (${quota[2]})`;
}

/** So long a cluster takes at most to make a pod, or to say why it cannot. */
const soon = 30 * second;

function podsIn(
  sight: ClusterSight,
  now: Instant,
): {
  readonly running: readonly ClusterPod[];
  readonly stuck: readonly ReturnType<typeof stuckOf>[];
} {
  const alive = sight.pods.filter((pod) => !isOver(pod) && !pod.deleting);
  const running = alive.filter((pod) => pod.containers.some((one) => !one.init && one.state === 'running'));
  return { running, stuck: alive.filter((pod) => !running.includes(pod)).map((pod) => stuckOf(pod, sight, now)) };
}

/** Its programs have ended, though its phase may not say so for another second or two. */
function isOver({ phase, containers }: ClusterPod): boolean {
  const usual = containers.filter(({ init }) => !init);
  return (
    phase === 'Succeeded' ||
    phase === 'Failed' ||
    (usual.length > 0 && usual.every((one) => one.state === 'terminated' && !isAgain(one)))
  );
}

/** It failed as it did before, and is going to be started anew in its place. */
function isAgain({ state, exitCode, restarts }: ClusterContainer): boolean {
  return state === 'terminated' && exitCode !== 0 && restarts > 0;
}

// ------------------------------------------------------------------------------------------ failures

interface Told {
  readonly told: string;
  readonly because: string | null;
}

function failureOf(sight: ClusterSight, now: Instant): Told {
  const { job, pods } = sight;
  const condition = conditionOf(job, 'Failed');
  const because = conditionText(sight, 'Failed', now);
  if (condition?.reason === 'DeadlineExceeded') return { told: `it ${deadlineText(job)}`, because };
  const failed = pods
    .filter(({ phase }) => phase === 'Failed')
    .toSorted((one, other) => other.createdAt - one.createdAt);
  const [pod] = failed;
  if (pod === undefined) {
    const sure = condition?.message ?? 'its pod failed';
    return { told: `${lowered(sure)}; its pod is gone`, because };
  }
  const earlier = failed.length - 1;
  const others =
    earlier === 0 ? '' : ` (${earlier === 1 ? 'an earlier pod' : countText(earlier, 'earlier pod')} failed too)`;
  if (pod.reason === 'Evicted') {
    return { told: `its pod was evicted from the node ${pod.node ?? ''}${others}`, because: pod.message ?? because };
  }
  const container = failedContainer(pod);
  if (container === undefined) return { told: lowered(pod.message ?? pod.reason ?? 'its pod failed'), because };
  return {
    told: `${calledIn(pod, container)} ${endText(container, pod)}${others}`,
    because: container.message ?? because,
  };
}

function endText({ name, reason, exitCode, signal }: RunEnd & Pick<ClusterContainer, 'name'>, pod: ClusterPod): string {
  if (reason === 'OOMKilled') {
    const [limit, request] = [pod.limits?.[name], pod.requests['memory']];
    const most = limit === undefined ? '' : `; its limit is ${limit}`;
    const asks = request === undefined || request === limit ? '' : `${most === '' ? ';' : ','} it asks for ${request}`;
    return `used more memory than it may have and was killed (OOMKilled)${most}${asks}`;
  }
  if (reason === 'StartError' || reason === 'ContainerCannotRun') return 'could not be started';
  if (signal !== null && signal > 0) return `was ended by signal ${signal}`;
  return `ended with exit code ${exitCode ?? 'unknown'}`;
}

// ------------------------------------------------------------------------------------------ what is waited for

/** Reasons of a container that waits because its image does not come. */
const imageReasons = ['ErrImagePull', 'ImagePullBackOff', 'InvalidImageName', 'ErrImageNeverPull', 'ImageInspectError'];

type Stuck = Told & { readonly phase: Phase; readonly short?: string };

function stuckOf(pod: ClusterPod, sight: ClusterSight, now: Instant): Stuck {
  const scheduled = pod.conditions.find(({ type }) => type === 'PodScheduled');
  const own = sight.events.filter(({ object }) => object.uid === pod.uid);
  if (scheduled?.status === 'False') {
    const message = scheduled.message ?? '';
    const because = quoted(scheduled.reason ?? 'Unschedulable', message, scheduled.at, now);
    if (scheduled.reason === 'SchedulingGated')
      return { told: 'waits until its gates are opened', because, phase: 'queued' };
    return { told: unscheduledText(pod, message, sight), because, phase: 'queued' };
  }
  if (pod.node === null) return { told: 'waits for a node', because: null, phase: 'queued' };
  const waiting = pod.containers.find(
    (one) => isAgain(one) || (one.state === 'waiting' && one.reason !== null && !quiet.has(one.reason)),
  );
  const warning = own.findLast(({ type }) => type === 'Warning');
  if (waiting === undefined) {
    const warned = warning === undefined ? null : eventText(warning, now);
    const first = pod.containers.find(({ init, state }) => init && state === 'running');
    const told = first === undefined ? `is being set up on the node ${pod.node}` : `runs its first step, ${first.name}`;
    return { told, because: warned, phase: 'setup' };
  }
  const { reason, message, image, name } = waiting;
  const failing = own.findLast(({ reason: of, message: says }) => of === 'Failed' && says.includes('pull'));
  const cause = failing ?? (isAgain(waiting) ? warning : undefined);
  const because = cause === undefined ? quoted(reason ?? '', message ?? '', null, now) : eventText(cause, now);
  if (imageReasons.includes(reason ?? '')) return { told: `cannot get its image ${image}`, because, phase: 'setup' };
  if (reason === 'CrashLoopBackOff' || isAgain(waiting)) {
    const end = isAgain(waiting) ? waiting : (waiting.lastEnd ?? null);
    const times = waiting.restarts === 0 ? [] : [`restarted ${timesText(waiting.restarts)}`];
    const short = [...(end === null ? [] : [causeText(end) ?? 'failed']), ...times].join(', ');
    const how = end === null ? '' : `: ${calledIn(pod, waiting)} ${endText({ ...end, name }, pod)}`;
    return {
      told: `ends again and again${times.length === 0 ? '' : ` (${times[0]})`}${how}; it is started again after a pause`,
      short: `ends again and again${short === '' ? '' : ` (${short})`}`,
      because,
      phase: 'recovering',
    };
  }
  return { told: `cannot start its container ${name}: ${message ?? reason ?? ''}`, because, phase: 'setup' };
}

/** Reasons that every healthy pod has while it starts. */
const quiet = new Set(['ContainerCreating', 'PodInitializing']);

function unscheduledText(pod: ClusterPod, message: string, { nodes, neighbours }: ClusterSight): string {
  // A full node is not the reason where the scheduler names another one, such as a volume that is not there.
  const isFull = nodes !== null && neighbours !== null && (message === '' || message.includes('Insufficient '));
  const lack = isFull ? lackOf(pod, nodes, neighbours) : undefined;
  if (lack !== undefined) {
    return lack.absent.length > 0 ? `finds no node: ${lackText(lack)}` : `waits for room: ${lackText(lack)}`;
  }
  const short = [...message.matchAll(/(\d+) Insufficient ([^,.\s]+(?:\.[^,.\s]+)*)/g)].map(([, count, name]) => ({
    count,
    name,
  }));
  const asks = amountsText(
    Object.fromEntries(
      short.flatMap(({ name = '' }) => (pod.requests[name] === undefined ? [] : [[name, pod.requests[name]]])),
    ),
  );
  if (short.length > 0) {
    const [, all] = /^0\/(\d+) nodes/.exec(message) ?? [];
    const names = short.map(
      ({ count, name }) => `${name} on ${count}${all === undefined ? '' : ` of ${countText(Number(all), 'node')}`}`,
    );
    const [one] = short;
    // Only nodes say whether they have it at all; this is true either way.
    if (short.length === 1 && one?.count === all && one?.name?.includes('/') === true) {
      return `waits for room: it asks for ${asks}, and no node has enough ${one.name}`;
    }
    return `waits for room: it asks for ${asks}, and there is too little ${names.join(', ')}`;
  }
  if (message.includes('node affinity/selector')) return 'finds no node with the labels that it wants';
  if (message.includes('untolerated taint')) return 'finds no node that is open to it: all are tainted';
  const [claim] =
    /persistentvolumeclaim "[^"]+" not found|unbound immediate PersistentVolumeClaims/.exec(message) ?? [];
  if (claim !== undefined) return `waits for its volume: ${claim}`;
  return 'finds no node';
}

// ------------------------------------------------------------------------------------------ words

function holds(job: ClusterJob, type: string): boolean {
  return conditionOf(job, type)?.status === 'True';
}

function conditionOf({ conditions }: ClusterJob, type: string) {
  return conditions.find((condition) => condition.type === type);
}

function conditionText({ job }: ClusterSight, type: string, now: Instant): string | null {
  const condition = conditionOf(job, type);
  return condition === undefined ? null : quoted(condition.reason ?? type, condition.message ?? '', condition.at, now);
}

function eventText({ reason, message, lastAt, count }: ClusterEvent, now: Instant): string {
  return quoted(reason, message, lastAt, now) + (count > 1 ? `, ${count} times` : '');
}

function quoted(reason: string, message: string, at: Instant | null, now: Instant): string {
  return `${reason}${message === '' ? '' : `: ${message}`}${at === null ? '' : ` (${momentText(at, now)})`}`;
}

function lowered(sentence: string): string {
  return `${sentence[0]?.toLowerCase() ?? ''}${sentence.slice(1).replace(/\.$/, '')}`;
}
