// The rows of the list of TPUs: filters, the number of TPUs in each state, and an order that does not change while a person
// uses the table.

import { sortKnownTpus, tpuKey, tpuUses, type KnownTpu } from '../../app/known-tpus.ts';
import type { Instant } from '../../core/model/time.ts';

/** The uses of TPUs, and orphans, which have a use as well. */
export const tpuStates = [...tpuUses, 'orphan'] as const;

type TpuState = (typeof tpuStates)[number];

export interface TpuChoice {
  readonly zone: string | null;
  /** An accelerator type. */
  readonly type: string | null;
  readonly state: TpuState | null;
  /** Each part of it, between spaces, is in the name, an alias, the state, the owner or the job. */
  readonly text: string;
}

export interface ShownTpus {
  /** Sorted by the cost of idle time, highest first. */
  readonly rows: readonly KnownTpu[];
  /** The TPUs in each state that the other filters show. */
  readonly counts: ReadonlyMap<TpuState, number>;
}

/** The choice in the parameters of an address. An unknown state is none. */
export function readChoice(query: URLSearchParams): TpuChoice {
  return {
    zone: query.get('zone'),
    type: query.get('type'),
    state: tpuStates.find((one) => one === query.get('state')) ?? null,
    text: query.get('filter') ?? '',
  };
}

/** `aliasesOf`: the other names of a TPU. */
export function selectTpus(
  tpus: readonly KnownTpu[],
  { zone, type, state, text }: TpuChoice,
  aliasesOf: (name: string) => readonly string[],
  now: Instant,
): ShownTpus {
  const parts = text.toLowerCase().split(/\s+/);
  const found = tpus.filter((tpu) => {
    if ((zone !== null && tpu.zone !== zone) || (type !== null && tpu.accelerator !== type)) return false;
    const { name, project, accelerator, pricing, user, job } = tpu;
    const texts = [
      name,
      ...aliasesOf(name),
      project,
      tpu.zone,
      accelerator,
      pricing,
      tpu.state,
      user,
      job?.id,
      job?.name,
    ];
    const searched = texts.join('\n').toLowerCase();
    return parts.every((part) => searched.includes(part));
  });
  const counts = new Map<TpuState, number>();
  for (const one of found.flatMap(statesOf)) counts.set(one, (counts.get(one) ?? 0) + 1);
  const rows = state === null ? found : found.filter((tpu) => statesOf(tpu).includes(state));
  return { rows: sortKnownTpus(rows, now), counts };
}

function statesOf(tpu: KnownTpu): readonly TpuState[] {
  return [tpu.use, ...(tpu.row?.owner.kind === 'orphan' ? (['orphan'] as const) : [])];
}

/** The rows in the order of `before`; new ones come last. */
export function inOrderOf(before: readonly string[], rows: readonly KnownTpu[]): readonly KnownTpu[] {
  const positions = new Map(before.map((key, index) => [key, index]));
  const position = (tpu: KnownTpu): number => positions.get(tpuKey(tpu)) ?? before.length;
  return rows.toSorted((one, other) => position(one) - position(other));
}
