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

const small3d = { 8: '2x2x1', 16: '2x2x2', 32: '2x2x4', 64: '2x4x4' };

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
    topologies: {
      ...small3d,
      128: '4x4x4',
      256: '4x4x8',
      384: '4x4x12',
      512: '4x8x8',
      1024: '8x8x8',
      1536: '8x8x12',
      2048: '8x8x16',
      4096: '8x16x16',
    },
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
    topologies: {
      ...small3d,
      128: '4x4x4',
      256: '4x4x8',
      384: '4x4x12',
      512: '4x8x8',
      640: '4x4x20',
      768: '4x8x12',
      896: '4x4x28',
      1024: '8x8x8',
      1152: '4x12x12',
      1280: '4x8x20',
      1536: '8x8x12',
      1792: '4x8x28',
      1920: '4x12x20',
      2048: '8x8x16',
      2304: '8x12x12',
      2560: '8x8x20',
      3072: '8x12x16',
      4096: '8x16x16',
      6144: '12x16x16',
      8192: '16x16x16',
      12288: '16x16x24',
    },
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

export function acceleratorByType(type: string): Accelerator | undefined {
  return accelerators.find((accelerator) => accelerator.type === type);
}

/** By `acceleratorConfig`: the API's word for the generation, and the topology. */
export function acceleratorByShape(kind: string, topology: string): Accelerator | undefined {
  return accelerators.find((accelerator) => accelerator.kind === kind && accelerator.topology === topology);
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
