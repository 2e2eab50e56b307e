/**
 * The accelerators that the emulator offers, with their real worker and chip counts: facts/cloud-tpu.md section 12.
 * A type is known by its text; a topology belongs to it.
 */

export type Generation = 'v2' | 'v3' | 'v4' | 'v5e' | 'v5p' | 'v6e';

export interface Accelerator {
  /** `v5litepod-16`. */
  readonly type: string;
  readonly generation: Generation;
  /** The API's word in `acceleratorConfig.type`. */
  readonly kind: string;
  /** In chips: `4x4`, `2x2x2`. */
  readonly topology: string;
  readonly chips: number;
  /** VMs, which are network endpoints, which are workers. */
  readonly workers: number;
  /** What quota counts: chips for v5e and v6e, TensorCores for the others. */
  readonly quotaUnits: number;
}

interface GenerationFacts {
  readonly prefix: string;
  readonly kind: string;
  readonly coresPerChip: 1 | 2;
  /** True where the number in the type counts chips. */
  readonly numberIsChips: boolean;
  /** How Google's quota names spell it. */
  readonly quotaName: string;
  readonly topologies: Readonly<Record<number, string>>;
}

const flat256 = {
  1: '1x1',
  4: '2x2',
  8: '2x4',
  16: '4x4',
  32: '4x8',
  64: '8x8',
  128: '8x16',
  256: '16x16',
};

/** Slices of v4 and v5p: up to 64 cores the small ones; from 128 cores on tori, built of cubes of 4x4x4 chips. */
const tori: readonly (readonly [number: number, topology: string])[] = `
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
13824:12x24x24 17920:16x20x28`
  .trim()
  .split(/\s+/)
  .map((size) => {
    const [number, topology = ''] = size.split(':');
    return [Number(number), topology];
  });

/** The tori of up to that many cores. */
function toriTo(most: number): Readonly<Record<number, string>> {
  return Object.fromEntries(tori.filter(([number]) => number <= most));
}

export const generations: Readonly<Record<Generation, GenerationFacts>> = {
  v2: {
    prefix: 'v2-',
    kind: 'V2',
    coresPerChip: 2,
    numberIsChips: false,
    quotaName: 'TPUV2s',
    topologies: { 8: '2x2', 32: '4x4', 128: '8x8', 256: '8x16', 512: '16x16' },
  },
  v3: {
    prefix: 'v3-',
    kind: 'V3',
    coresPerChip: 2,
    numberIsChips: false,
    quotaName: 'TPUV3s',
    topologies: {
      8: '2x2',
      32: '4x4',
      64: '4x8',
      128: '8x8',
      256: '8x16',
      512: '16x16',
      1024: '16x32',
      2048: '32x32',
    },
  },
  v4: {
    prefix: 'v4-',
    kind: 'V4',
    coresPerChip: 2,
    numberIsChips: false,
    quotaName: 'TPUV4s',
    // Sold in steps of a cube up to 6144, and as the whole pod.
    topologies: { ...toriTo(6144), 8192: '16x16x16' },
  },
  v5e: {
    prefix: 'v5litepod-',
    kind: 'V5LITE_POD',
    coresPerChip: 1,
    numberIsChips: true,
    quotaName: 'TPUV5sLitepod',
    topologies: flat256,
  },
  v5p: {
    prefix: 'v5p-',
    kind: 'V5P',
    coresPerChip: 2,
    numberIsChips: false,
    quotaName: 'TPUV5P',
    topologies: toriTo(17_920),
  },
  v6e: {
    prefix: 'v6e-',
    kind: 'V6E',
    coresPerChip: 1,
    numberIsChips: true,
    quotaName: 'TPUV6E',
    topologies: flat256,
  },
};

/** Every type of every generation, the small ones of each first. */
export const accelerators: readonly Accelerator[] = Object.entries(generations).flatMap(([generation, facts]) =>
  Object.entries(facts.topologies).map(([text, topology]) => {
    const number = Number(text);
    const chips = facts.numberIsChips ? number : number / facts.coresPerChip;
    return {
      type: `${facts.prefix}${text}`,
      generation: generation as Generation,
      kind: facts.kind,
      topology,
      chips,
      workers: workersOf(chips, facts.numberIsChips),
      quotaUnits: number,
    };
  }),
);

/** Four chips to a VM. v5e and v6e with up to eight chips are one VM: the 2x4 shape is the single-host special case. */
function workersOf(chips: number, singleHostOfEight: boolean): number {
  if (singleHostOfEight && chips <= 8) return 1;
  return Math.ceil(chips / 4);
}

const byType = new Map(accelerators.map((accelerator) => [accelerator.type, accelerator]));

/** By the text that the API calls `acceleratorType`; undefined for one that no generation has. */
export function acceleratorByType(type: string): Accelerator | undefined {
  return byType.get(type);
}

/**
 * By `acceleratorConfig`: the API's word for the generation, and the topology. A torus may be asked for in another shape
 * than the one its type has by default (`4x4x16` in place of `4x8x8`); the answer then has that shape.
 */
export function acceleratorByShape(kind: string, topology: string): Accelerator | undefined {
  const usual = accelerators.find((accelerator) => accelerator.kind === kind && accelerator.topology === topology);
  if (usual !== undefined) return usual;
  const sides = topology.split('x').map(Number);
  const isTorus = sides.length === 3 && sides.every((side, at) => side >= (sides[at - 1] ?? 4) && side % 4 === 0);
  if (!isTorus) return undefined;
  const chips = sides.reduce((product, side) => product * side, 1);
  const same = accelerators.find((accelerator) => accelerator.kind === kind && accelerator.chips === chips);
  return same === undefined || same.topology.split('x').length !== 3 ? undefined : { ...same, topology };
}

/** `TPUV6EPreemptiblePerProjectPerRegionForTPUAPI`: how Google names the limit that a request meets. */
export function quotaName(generation: Generation, preemptible: boolean, perZone: boolean): string {
  const base = generations[generation].quotaName;
  // The older names put the word before the family's own ending: TPUV5sPreemptibleLitepod…
  const family =
    generation === 'v5e'
      ? `TPUV5s${preemptible ? 'Preemptible' : ''}Litepod`
      : `${base}${preemptible ? 'Preemptible' : ''}`;
  return `${family}PerProjectPer${perZone ? 'Zone' : 'Region'}ForTPUAPI`;
}
