// Reservations: chips of a zone that were set aside for a project. They are conditions of the verb `reserve`.

import { accelerator, generations } from '../../catalogue/accelerators.ts';
import { offeredGenerations } from '../../catalogue/zones.ts';
import { type CloudError, texts } from '../wire/errors.ts';
import { timestampText } from '../wire/encode.ts';
import { type Data, messageOf, textOf } from '../wire/messages.ts';
import type { Condition, NodeRecord } from './records.ts';
import { type Place, pricingOf, standing } from './temper.ts';
import type { World } from './world.ts';

interface Reservation {
  readonly id: string;
  readonly zone: string;
  readonly generation: string;
  readonly chips: number;
  readonly condition: Condition;
}

/** The reservations of a project: those made for it, and those made for whoever asks. */
function reservationsOf(world: World, project: string): Reservation[] {
  return standing(world, 'reserve').flatMap((condition) => {
    const place = reservedPlace(condition.target);
    const owner = condition.options['project'];
    if (place === undefined || (owner !== undefined && owner !== project)) return [];
    const id = String(condition.options['name'] ?? `${place.generation}-${place.zone}`);
    return [{ ...place, id, chips: Number(condition.options['chips'] ?? 0), condition }];
  });
}

/** `us-central1-a/v5e` taken apart, in either order; undefined when it is not one zone and one generation. */
export function reservedPlace(target: string): { readonly zone: string; readonly generation: string } | undefined {
  const words = target.split('/');
  const generation = words.find((word) => offeredGenerations.includes(word));
  const zone = words.find((word) => word !== generation);
  return words.length === 2 && generation !== undefined && zone !== undefined && zone.includes('-')
    ? { zone, generation }
    : undefined;
}

/**
 * Why a reserved node cannot be made now: what it names has too few chips left, or, when it names none (`-` says so too),
 * all reservations of the zone together have. Clients write the full name, and gcloud a wrong zone in it, so the last
 * part alone counts.
 */
export function reservedFailure(world: World, place: Place, node: Data, wanted: number): CloudError | undefined {
  const asked = nameIn(node);
  const offered = reservationsOf(world, place.project).filter(
    (each) =>
      each.zone === place.zone && each.generation === place.generation && (asked === undefined || each.id === asked),
  );
  const left = offered.reduce((sum, each) => sum + each.chips - usedOf(world, place.project, each), 0);
  return wanted <= left ? undefined : texts.reservationExhausted(world.eid());
}

function nameIn(node: Data): string | undefined {
  const name = textOf(messageOf(node, 'schedulingConfig'), 'reservationName');
  const id = name.slice(name.lastIndexOf('/') + 1);
  return id === '' || id === '-' ? undefined : id;
}

/** Chips in use of one reservation. Nodes that name none fill the reservations of their place from the first on. */
function usedOf(world: World, project: string, reservation: Reservation): number {
  const holders = world.nodes.values().filter((node) => holds(node, project, reservation));
  const chipsOf = (nodes: readonly NodeRecord[]): number =>
    nodes.reduce((sum, node) => sum + (accelerator(node.type)?.chips ?? 0), 0);
  const named = (id: string): number => chipsOf(holders.filter((node) => nameIn(node.asked) === id));
  let unnamed = chipsOf(holders.filter((node) => nameIn(node.asked) === undefined));
  for (const each of reservationsOf(world, project)) {
    if (each.zone !== reservation.zone || each.generation !== reservation.generation) continue;
    const own = named(each.id);
    const filled = Math.min(unnamed, Math.max(0, each.chips - own));
    if (each.id === reservation.id) return own + filled;
    unnamed -= filled;
  }
  return 0;
}

function holds(node: NodeRecord, project: string, { zone, generation }: Reservation): boolean {
  return (
    node.project === project &&
    node.zone === zone &&
    node.state !== 'PREEMPTED' &&
    node.state !== 'TERMINATED' &&
    pricingOf(node.asked) === 'reserved' &&
    accelerator(node.type)?.generation.name === generation
  );
}

/** The reservations of a project in those zones, as messages. */
export function reservationData(world: World, project: string, zones: readonly string[]): Data[] {
  return reservationsOf(world, project)
    .filter(({ zone }) => zones.includes(zone))
    .map((each) => {
      const generation = generations.find(({ name }) => name === each.generation);
      const units = generation?.coresPerChip ?? 1;
      const { since, until } = each.condition;
      return {
        name: `projects/${project}/locations/${each.zone}/reservations/${each.id}`,
        state: 'ACTIVE',
        standard: {
          size: each.chips * units,
          capacityUnits: generation?.counts === 'chips' ? 'CHIPS' : 'CORES',
          resourceType: generation?.configType,
          interval: {
            startTime: timestampText(since),
            ...(until === null ? {} : { endTime: timestampText(until) }),
          },
          usage: { total: String(usedOf(world, project, each) * units) },
        },
      };
    });
}
