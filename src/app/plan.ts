// Plan: what `create --dry-run` says. Nothing is asked of anybody and nothing is stored.

import { nodeName } from '../core/allocate.ts';
import { answerFor } from '../core/recover.ts';
import {
  placesOf,
  nodeNameMark,
  withJobIds,
  type JobSpec,
  type Rule,
  type RuledReason,
  type TpuSpec,
} from '../core/spec.ts';
import type { Plan } from './client.ts';
import { isPretended, allowanceText, startText } from './phrases.ts';
import { countText, lengthText, workerText, reasonWords } from './figures.ts';

const idToCome = '<job id>';

export function planOf(given: JobSpec, pricePerHour: number | null): Plan {
  const spec = withJobIds(given, idToCome, '<installation id>');
  return {
    name: spec.name,
    backend: spec.capacity.kind,
    asks: asksOf(spec),
    steps: spec.steps.map((step) => `${step.name}, on every worker, at most ${lengthText(step.timeout)} a try`),
    command:
      spec.command.isSetupOnly === true
        ? setupOnlyText(spec)
        : `${whereOf(spec)}:\n${textOf(spec, spec.command.written ?? spec.command.script)}`,
    script: spec.command.written === undefined ? null : textOf(spec, spec.command.script),
    rules: rulesOf(spec),
    limits: limitsOf(spec),
    pricePerHour,
    pretended: isPretended(spec.capacity),
  };
}

function asksOf(spec: JobSpec): readonly string[] {
  const { capacity } = spec;
  switch (capacity.kind) {
    case 'local':
      return [`a place on this machine, in ${startText(spec.workdir, capacity)}`];
    case 'tpu': {
      const name = nodeName(spec, idToCome, 1);
      if (capacity.ownership === 'standing') {
        return [
          `the TPU ${name} in ${capacity.zone} of ${capacity.project}, which exists already and is never released`,
        ];
      }
      // Names only: what they say may be meant for the machines alone.
      const told = Object.keys(capacity.metadata);
      const way = capacity.mode === 'queued-resources' ? 'queued resource and node' : 'node';
      return [
        `${way} ${name} in ${capacity.zone} of ${capacity.project}`,
        `${capacity.accelerator}, ${capacity.pricing}, runtime ${capacity.runtimeVersion}`,
        `labels jobman-installation, jobman-job, jobman-allocation${listed(', tags', spec.tags)}${listed(', network tags', capacity.networkTags)}`,
        ...(capacity.startupScript === null ? [] : ['a startup script at every boot']),
        ...(told.length === 0 ? [] : [`metadata ${told.join(', ')}`]),
        ...furtherAsks(capacity),
      ];
    }
  }
}

function furtherAsks(capacity: TpuSpec): readonly string[] {
  const { nodeCount, topology, reservation, network, subnetwork, serviceAccount, dataDisks, validUntil } = capacity;
  const [, ...others] = placesOf(capacity);
  const wait = capacity.alternativesWait;
  const patience = wait === undefined ? '' : `, or after ${lengthText(wait)} of waiting`;
  return [
    ...(nodeCount === undefined ? [] : [`a multislice of ${nodeCount} such TPUs, all or none`]),
    ...(topology === undefined ? [] : [`wired as ${topology}`]),
    ...(reservation === undefined ? [] : [`of the reservation ${reservation}`]),
    ...(network === undefined ? [] : [`in the network ${network}`]),
    ...(subnetwork === undefined ? [] : [`in the subnetwork ${subnetwork}`]),
    ...(serviceAccount === undefined ? [] : [`acting as ${serviceAccount}`]),
    ...(dataDisks ?? []).map(({ source, mode }) => `with the disk ${source}, ${mode}`),
    ...(validUntil === undefined ? [] : [`given up by the queue after ${lengthText(validUntil)}`]),
    ...others.map(
      ({ accelerator, pricing, zone }) =>
        `else ${accelerator}, ${pricing}, in ${zone}: when the one before has nothing${patience}`,
    ),
  ];
}

function listed(words: string, items: readonly string[]): string {
  return items.length === 0 ? '' : `${words} ${items.join(', ')}`;
}

function whereOf({ command, capacity }: JobSpec): string {
  if (command.place === 'here') return 'on this machine, once its TPU is ready';
  if (command.workers === 'all') return capacity.kind === 'local' ? 'on this machine' : 'on every worker';
  return `on ${command.workers.map(workerText).join(', ')}`;
}

function textOf(spec: JobSpec, script: string): string {
  return script.replaceAll(nodeNameMark, nodeName(spec, idToCome, 1)).trimEnd();
}

function setupOnlyText({ capacity, finish }: JobSpec): string {
  if (capacity.kind === 'local') return 'none';
  if (capacity.ownership === 'standing') return 'none: the TPU is set up';
  if (finish.capacity === 'release') return 'none: the TPU is set up and released';
  const limit = finish.keepFor === null ? 'until you release it' : `for ${lengthText(finish.keepFor)}`;
  return `none: the TPU is set up and kept ${limit}`;
}

const ruled: readonly RuledReason[] = [
  'preempted',
  'unreachable',
  'setup_failed',
  'command_failed',
  'hung',
  'succeeded',
];

function rulesOf(spec: JobSpec): readonly string[] {
  const { recovery } = spec;
  const rows = ruled
    .filter((reason) => reason !== 'preempted' || spec.capacity.kind === 'tpu')
    .map((reason) => `${reasonWords[reason]} -> ${answerText(answerFor(recovery, reason, { detail: '' }))}`);
  const byLog = recovery.rules
    .filter(isNarrow)
    .map((rule) => `${reasonWords[rule.reason]}, ${narrowText(rule)} -> ${answerText(rule.answer)}${termsText(rule)}`);
  return [
    `rule ${recovery.preset}: ${allowanceText(recovery) ?? 'nothing is tried again'}`,
    // Rules by the log are asked first, so they are told first.
    ...byLog,
    ...rows,
  ];
}

function isNarrow({ evidence, exitCodes, worker }: Rule): boolean {
  return evidence !== undefined || exitCodes !== undefined || worker !== undefined;
}

function narrowText({ evidence, exitCodes, worker }: Rule): string {
  return [
    ...(exitCodes === undefined ? [] : [`exit code ${exitCodes.join(' or ')}`]),
    ...(worker === undefined ? [] : [workerText(worker)]),
    ...(evidence === undefined ? [] : [`log says ${evidence}`]),
  ].join(', ');
}

function termsText({ limit, delay, avoidZone }: Rule): string {
  return [
    ...(avoidZone === undefined ? [] : [', in another zone']),
    ...(limit === undefined ? [] : [`, ${countText(limit, 'time')} at most`]),
    ...(delay === undefined ? [] : [`, after ${lengthText(delay)}`]),
  ].join('');
}

function answerText(answer: { readonly then: string; readonly on: string }): string {
  return answer.then === 'resume' || answer.then === 'rerun'
    ? `${answer.then} on ${answer.on === 'new' ? 'a new' : 'the same'} allocation`
    : answer.then;
}

function limitsOf(spec: JobSpec): readonly string[] {
  const { limits, stop, finish, recovery } = spec;
  const kept = finish.keepFor === null ? 'until you release it' : `for ${lengthText(finish.keepFor)}`;
  return [
    limits.maxRuntime === null ? 'no limit on its run time' : `ended after ${lengthText(limits.maxRuntime)} of running`,
    limits.silenceTimeout === null
      ? 'no limit on silence'
      : `counts as hung after ${lengthText(limits.silenceTimeout)} without output`,
    limits.capacityWait === null
      ? 'waits for capacity without limit'
      : `gives up after ${lengthText(limits.capacityWait)} without capacity`,
    `setup steps are tried ${countText(limits.setupTries, 'time')} on a worker`,
    `stopped with ${stop.signal}, killed after ${lengthText(stop.grace)}`,
    `a silent worker is given up after ${lengthText(recovery.unreachableGrace)}`,
    ...(spec.capacity.ownership === 'owned'
      ? [finish.capacity === 'release' ? 'released when it ends' : `kept when it ends, ${kept}`]
      : []),
  ];
}
