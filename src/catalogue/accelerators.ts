// Accelerators: chips, workers and topology of Google's TPU types, for planning and early checks of a manifest. Once a
// node exists, its network endpoints decide.
// Source: the tables of Google's TPU documents and of JobSet, SkyPilot and MaxText, read in 2026.

import { didYouMean } from './did-you-mean.ts';

export interface Generation {
  readonly name: string;
  /** Prefix of a type: `v5litepod-`. */
  readonly prefix: string;
  /** `AcceleratorConfig.Type` of the API, used with a topology: `V5LITE_POD`. */
  readonly configType: string;
  /** The unit of the number in a type. */
  readonly sizeUnit: 'cores' | 'chips';
  readonly coresPerChip: number;
  /** The runtime version that Google's documents name for it. */
  readonly runtimeVersion: string;
  /** Topology in chips by the number in the type. */
  readonly sizes: ReadonlyMap<number, string>;
}

export interface Accelerator {
  /** `v4-16`. */
  readonly type: string;
  readonly generation: Generation;
  readonly chips: number;
  readonly workers: number;
  readonly chipsPerWorker: number;
  /** `2x2x2`, in chips. */
  readonly topology: string;
}

// Up to 64 cores small slices; from 128 cores on, tori of cubes of 4x4x4 chips.
const torusSizes = `
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

const v2Sizes = '8:2x2 32:4x4 128:8x8 256:8x16 512:16x16';
const v3Sizes = '8:2x2 32:4x4 64:4x8 128:8x8 256:8x16 512:16x16 1024:16x32 2048:32x32';
const chipSizes = '1:1x1 4:2x2 8:2x4 16:4x4 32:4x8 64:8x8 128:8x16 256:16x16';

export const generations: readonly Generation[] = [
  defineGeneration('v2', 'v2-', 'cores', 2, 'tpu-ubuntu2204-base', () => parseSizes(v2Sizes)),
  defineGeneration('v3', 'v3-', 'cores', 2, 'tpu-ubuntu2204-base', () => parseSizes(v3Sizes)),
  // Google sells v4 up to 6144 in steps of a cube, and the whole pod of 8192.
  defineGeneration('v4', 'v4-', 'cores', 2, 'tpu-ubuntu2204-base', () =>
    parseSizes(torusSizes, (n) => n <= 6144 || n === 8192),
  ),
  defineGeneration('v5e', 'v5litepod-', 'chips', 1, 'v2-alpha-tpuv5-lite', () => parseSizes(chipSizes)),
  defineGeneration('v5p', 'v5p-', 'cores', 2, 'v2-alpha-tpuv5', () =>
    parseSizes(torusSizes, (n) => n <= 13_824 || n === 17_920),
  ),
  defineGeneration('v6e', 'v6e-', 'chips', 1, 'v2-alpha-tpuv6e', () => parseSizes(chipSizes)),
  defineGeneration('tpu7x', 'tpu7x-', 'cores', 2, 'v2-alpha-tpu7-ubuntu2404', () =>
    parseSizes(`2:1x1x1 ${torusSizes}`),
  ),
];

/** The chips of all nodes; null for a type that the tables do not have. */
export function chipCount(type: string, nodeCount = 1): number | null {
  const accelerator = findAccelerator(type);
  return accelerator === undefined ? null : accelerator.chips * nodeCount;
}

/** Undefined for a type that the tables do not have. */
export function findAccelerator(type: string): Accelerator | undefined {
  const generation = generationOf(type);
  const number = type.slice(generation?.prefix.length);
  // No leading zero and no sign: `v4-08` is not a name of `v4-8`.
  return generation === undefined || !/^[1-9]\d*$/.test(number)
    ? undefined
    : acceleratorOfSize(generation, Number(number));
}

function acceleratorOfSize(generation: Generation, size: number): Accelerator | undefined {
  const topology = generation.sizes.get(size);
  if (topology === undefined) return undefined;
  const chips = generation.sizeUnit === 'cores' ? size / generation.coresPerChip : size;
  const chipsPerWorker = Math.min(chips, maxChipsPerWorker(generation, chips));
  return {
    type: `${generation.prefix}${size}`,
    generation,
    chips,
    workers: chips / chipsPerWorker,
    chipsPerWorker,
    topology,
  };
}

/** Smallest first. */
export function acceleratorsOf(generation: Generation): readonly Accelerator[] {
  return [...generation.sizes.keys()]
    .map((size) => acceleratorOfSize(generation, size))
    .filter((one) => one !== undefined);
}

/** From an `acceleratorConfig` of the API. A torus keeps the form in the request (`4x4x16` instead of `4x8x8`). */
export function acceleratorOfTopology(configType: string, topology: string): Accelerator | undefined {
  const generation = generations.find((one) => one.configType === configType);
  if (generation === undefined) return undefined;
  const known = acceleratorsOf(generation);
  const standard = known.find((one) => one.topology === topology);
  if (standard !== undefined) return standard;
  const sides = topology.split('x').map(Number);
  const isTorus = sides.length === 3 && sides.every((side, index) => side >= (sides[index - 1] ?? 4) && side % 4 === 0);
  const chips = sides.reduce((product, side) => product * side, 1);
  const same = known.find((one) => isTorus && one.chips === chips && one.topology.split('x').length === 3);
  return same === undefined ? undefined : { ...same, topology };
}

/** The generation of a type, whatever its size; undefined for an unknown prefix. */
export function generationOf(type: string): Generation | undefined {
  return generations.find((one) => type.startsWith(one.prefix));
}

/** Understands other spellings of a type: `v5e-16`, `V4_8`, `tpu-v4-8`. Undefined when it names no generation. */
export function parseSpelling(type: string): { readonly generation: Generation; readonly size: number } | undefined {
  const match = /^(?:tpu(?!7x))?-?(v\d+\s*[a-z]*|tpu7x)[-_ ]?(\d+)$/i.exec(type.trim());
  if (match === null) return undefined;
  const prefix = (match[1] ?? '').toLowerCase().replace(/^v5(?:e|lite)$/, 'v5litepod');
  const found = generations.find((one) => one.prefix === `${prefix}-` || one.name === prefix);
  return found === undefined ? undefined : { generation: found, size: Number(match[2]) };
}

/** Another spelling, or the nearest size of the generation by factor; of two at equal distance, the larger. */
export function suggestAccelerator(type: string): string | undefined {
  const spelled = parseSpelling(type);
  if (spelled !== undefined) {
    const { prefix, sizes: known } = spelled.generation;
    const distance = (size: number): number => Math.max(size, spelled.size) / Math.max(1, Math.min(size, spelled.size));
    const nearest = [...known.keys()].reduce((best, size) => (distance(size) <= distance(best) ? size : best));
    return `${prefix}${nearest}`;
  }
  return didYouMean(
    type,
    generations.flatMap((one) => [...one.sizes.keys()].map((size) => `${one.prefix}${size}`)),
  );
}

/** Four chips to a machine, except the single machine of eight chips in v5e and v6e. */
function maxChipsPerWorker(generation: Generation, chips: number): number {
  return generation.sizeUnit === 'chips' && chips === 8 ? 8 : 4;
}

function defineGeneration(
  name: string,
  prefix: string,
  sizeUnit: 'cores' | 'chips',
  coresPerChip: number,
  runtimeVersion: string,
  readSizes: () => ReadonlyMap<number, string>,
): Generation {
  let sizes: ReadonlyMap<number, string> | undefined;
  const configType = prefix === 'v5litepod-' ? 'V5LITE_POD' : prefix.slice(0, -1).toUpperCase();
  return {
    name,
    prefix,
    configType,
    sizeUnit,
    coresPerChip,
    runtimeVersion,
    // Parsed on demand: every command loads this file, few need a size, and the tables take a millisecond.
    get sizes() {
      return (sizes ??= readSizes());
    },
  };
}

function parseSizes(table: string, has: (size: number) => boolean = () => true): ReadonlyMap<number, string> {
  const rows = table
    .trim()
    .split(/\s+/)
    .map((entry) => entry.split(':') as [string, string])
    .map(([size, topology]) => [Number(size), topology] as const);
  return new Map(rows.filter(([size]) => has(size)));
}
