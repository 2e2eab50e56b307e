// Accelerators: what Google's names of TPU types mean: how many chips, how many workers (virtual machines), which topology.
// A table for planning and for early mistakes in a manifest; once a node exists, its network endpoints are the truth.
// Source of every number: the tables of Google's TPU documents and of JobSet, SkyPilot and MaxText, read in 2026.

import { didYouMean } from './did-you-mean.ts';

export interface Generation {
  /** `v5e`, as people say it. */
  readonly name: string;
  /** The beginning of a type: `v5litepod-`. */
  readonly prefix: string;
  /** The API's word in addition to a topology (`AcceleratorConfig.Type`): `V5LITE_POD`. */
  readonly configType: string;
  /** The unit that the number in a type counts. */
  readonly counts: 'cores' | 'chips';
  readonly coresPerChip: number;
  /** The runtime version that Google's documents name for it. */
  readonly runtimeVersion: string;
  /** Every size of the generation: the number in the type, and how its chips are wired. */
  readonly sizes: ReadonlyMap<number, string>;
}

export interface Accelerator {
  /** `v4-16`. */
  readonly type: string;
  readonly generation: Generation;
  readonly chips: number;
  /** Virtual machines, which are the workers of an allocation. */
  readonly workers: number;
  readonly chipsPerWorker: number;
  /** `2x2x2`, in chips. */
  readonly topology: string;
}

// Up to 64 cores the small slices; from 128 cores on, tori built of cubes of 4x4x4 chips.
const torus = `
8:2x2x1 16:2x2x2 32:2x2x4 64:2x4x4
128:4x4x4 256:4x4x8 384:4x4x12 512:4x8x8 640:4x4x20 768:4x8x12 896:4x4x28 1024:8x8x8 1152:4x12x12 1280:4x8x20
1408:4x4x44 1536:8x8x12 1664:4x4x52 1792:4x8x28 1920:4x12x20 2048:8x8x16 2176:4x4x68 2304:8x12x12 2432:4x4x76
2560:8x8x20 2688:4x12x28 2816:4x8x44 2944:4x4x92 3072:8x12x16 3200:4x20x20 3328:4x8x52 3456:12x12x12 3584:8x8x28
3712:4x4x116 3840:8x12x20 3968:4x4x124 4096:8x16x16 4224:4x12x44 4352:4x8x68 4480:4x20x28 4608:12x12x16
4736:4x4x148 4864:4x8x76 4992:4x12x52 5120:8x16x20 5248:4x4x164 5376:8x12x28 5504:4x4x172 5632:8x8x44
5760:12x12x20 5888:4x8x92 6016:4x4x188 6144:12x16x16 6272:4x28x28 6400:8x20x20 6528:4x12x68 6656:8x8x52
6784:4x4x212 6912:12x12x24 7040:4x20x44 7168:8x16x28 7296:4x12x76 7424:4x8x116 7552:4x4x236 7680:12x16x20
7808:4x4x244 7936:4x8x124 8064:12x12x28 8192:16x16x16 8320:4x20x52 8448:8x12x44 8704:8x8x68 8832:4x12x92
8960:8x20x28 9216:12x16x24 9472:4x8x148 9600:12x20x20 9728:8x8x76 9856:4x28x44 9984:8x12x52 10240:16x16x20
10368:12x12x36 10496:4x8x164 10752:12x16x28 10880:4x20x68 11008:4x8x172 11136:4x12x116 11264:8x16x44
11520:12x20x24 11648:4x28x52 11776:8x8x92 11904:4x12x124 12032:4x8x188 12160:4x20x76 12288:16x16x24
13824:12x24x24 16384:16x16x32 17920:16x20x28 18432:16x24x24`;

const flatV2 = '8:2x2 32:4x4 128:8x8 256:8x16 512:16x16';
const flatV3 = '8:2x2 32:4x4 64:4x8 128:8x8 256:8x16 512:16x16 1024:16x32 2048:32x32';
const flatChips = '1:1x1 4:2x2 8:2x4 16:4x4 32:4x8 64:8x8 128:8x16 256:16x16';

/** Oldest first. */
export const generations: readonly Generation[] = [
  generation('v2', 'v2-', 'cores', 2, 'tpu-ubuntu2204-base', () => sizes(flatV2)),
  generation('v3', 'v3-', 'cores', 2, 'tpu-ubuntu2204-base', () => sizes(flatV3)),
  // v4 is sold up to 6144 in steps of a cube, and as the whole pod of 8192.
  generation('v4', 'v4-', 'cores', 2, 'tpu-ubuntu2204-base', () => sizes(torus, (n) => n <= 6144 || n === 8192)),
  generation('v5e', 'v5litepod-', 'chips', 1, 'v2-alpha-tpuv5-lite', () => sizes(flatChips)),
  generation('v5p', 'v5p-', 'cores', 2, 'v2-alpha-tpuv5', () => sizes(torus, (n) => n <= 13_824 || n === 17_920)),
  generation('v6e', 'v6e-', 'chips', 1, 'v2-alpha-tpuv6e', () => sizes(flatChips)),
  generation('tpu7x', 'tpu7x-', 'cores', 2, 'v2-alpha-tpu7-ubuntu2404', () => sizes(`2:1x1x1 ${torus}`)),
];

/** The accelerator of a type; undefined when it is none that we know. */
export function accelerator(type: string): Accelerator | undefined {
  const family = generationOf(type);
  const number = type.slice(family?.prefix.length);
  // No leading zero and no sign: `v4-08` is not a name of `v4-8`.
  return family === undefined || !/^[1-9]\d*$/.test(number) ? undefined : ofSize(family, Number(number));
}

function ofSize(family: Generation, size: number): Accelerator | undefined {
  const topology = family.sizes.get(size);
  if (topology === undefined) return undefined;
  const chips = family.counts === 'cores' ? size / family.coresPerChip : size;
  const chipsPerWorker = Math.min(chips, chipsPerWorkerMost(family, chips));
  return {
    type: `${family.prefix}${size}`,
    generation: family,
    chips,
    workers: chips / chipsPerWorker,
    chipsPerWorker,
    topology,
  };
}

/** Every size of a generation, the small ones first. */
export function acceleratorsOf(generation: Generation): readonly Accelerator[] {
  return [...generation.sizes.keys()].map((size) => ofSize(generation, size)).filter((one) => one !== undefined);
}

/**
 * By the API's `acceleratorConfig`: its word for the generation, and the topology. A torus may be asked for in another shape
 * than the one its type has by default (`4x4x16` instead of `4x8x8`); the answer then has that shape.
 */
export function acceleratorByShape(configType: string, topology: string): Accelerator | undefined {
  const generation = generations.find((one) => one.configType === configType);
  if (generation === undefined) return undefined;
  const known = acceleratorsOf(generation);
  const usual = known.find((one) => one.topology === topology);
  if (usual !== undefined) return usual;
  const sides = topology.split('x').map(Number);
  const isTorus = sides.length === 3 && sides.every((side, index) => side >= (sides[index - 1] ?? 4) && side % 4 === 0);
  const chips = sides.reduce((product, side) => product * side, 1);
  const same = known.find((one) => isTorus && one.chips === chips && one.topology.split('x').length === 3);
  return same === undefined ? undefined : { ...same, topology };
}

/** The generation whose prefix a type has, whatever its size; undefined for a prefix that we do not know. */
export function generationOf(type: string): Generation | undefined {
  return generations.find((one) => type.startsWith(one.prefix));
}

/** The type of what people write for a generation and a size: `v5e-16`, `V4_8`, `tpu-v4-8`. Undefined when no generation is meant by it. */
export function spelledAs(type: string): { readonly generation: Generation; readonly size: number } | undefined {
  const spelled = /^(?:tpu(?!7x))?-?(v\d+\s*[a-z]*|tpu7x)[-_ ]?(\d+)$/i.exec(type.trim());
  if (spelled === null) return undefined;
  const word = (spelled[1] ?? '').toLowerCase().replace(/^v5(?:e|lite)$/, 'v5litepod');
  const found = generations.find((one) => one.prefix === `${word}-` || one.name === word);
  return found === undefined ? undefined : { generation: found, size: Number(spelled[2]) };
}

/**
 * The type that was most likely meant: another spelling of the generation, or the nearest size of the right one (by the
 * factor between them; of two as near, the larger).
 */
export function acceleratorMeant(type: string): string | undefined {
  const spelled = spelledAs(type);
  if (spelled !== undefined) {
    const { prefix, sizes: known } = spelled.generation;
    const factor = (size: number): number => Math.max(size, spelled.size) / Math.max(1, Math.min(size, spelled.size));
    const nearest = [...known.keys()].reduce((best, size) => (factor(size) <= factor(best) ? size : best));
    return `${prefix}${nearest}`;
  }
  return didYouMean(
    type,
    generations.flatMap((one) => [...one.sizes.keys()].map((size) => `${one.prefix}${size}`)),
  );
}

/** Four chips to a machine, except the single machine of eight chips in v5e and v6e. */
function chipsPerWorkerMost(family: Generation, chips: number): number {
  return family.counts === 'chips' && chips === 8 ? 8 : 4;
}

function generation(
  name: string,
  prefix: string,
  counts: 'cores' | 'chips',
  coresPerChip: number,
  runtimeVersion: string,
  known: () => ReadonlyMap<number, string>,
): Generation {
  let sizes: ReadonlyMap<number, string> | undefined;
  // The API's word is the prefix in capitals, but for the pods of v5e, which are one word more.
  const configType = prefix === 'v5litepod-' ? 'V5LITE_POD' : prefix.slice(0, -1).toUpperCase();
  return {
    name,
    prefix,
    configType,
    counts,
    coresPerChip,
    runtimeVersion,
    // Every command loads this file, and few ask for a size: reading the tables took them a millisecond.
    get sizes() {
      return (sizes ??= known());
    },
  };
}

function sizes(table: string, has: (size: number) => boolean = () => true): ReadonlyMap<number, string> {
  const rows = table
    .trim()
    .split(/\s+/)
    .map((entry) => entry.split(':') as [string, string])
    .map(([size, topology]) => [Number(size), topology] as const);
  return new Map(rows.filter(([size]) => has(size)));
}
