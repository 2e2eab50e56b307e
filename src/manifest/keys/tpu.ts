// Keys of `tpu`: the TPU that is asked for.

import { generations } from '../../core/accelerators.ts';
import { runtimeVersions } from '../../core/runtime-versions.ts';
import { zoneMeant, zones } from '../../core/zones.ts';
import { choice, line, listOf, mapOf, section } from '../kinds.ts';
import type { Key } from '../kinds.ts';
import { writtenByOlder } from './names.ts';

const metadataName = { pattern: /^[A-Za-z0-9_-]{1,128}$/, rule: 'is no name for metadata (letters, digits, _ and -)' };

/** The smaller types of every generation, which most people want; editors offer them. */
const commonTypes = generations.flatMap(({ prefix, sizes }) =>
  [...sizes.keys()].slice(0, 8).map((size) => `${prefix}${size}`),
);

/** With small letters, and hyphens in place of what is no letter and no digit. */
function plainName(written: string): string {
  return written
    .trim()
    .toLowerCase()
    .replaceAll(/[^a-z0-9]+/g, '-')
    .replaceAll(/^[^a-z]+|-+$/g, '');
}

/** What the older jobman wrote into its copy of a manifest, and what its later versions took. */
const retired = {
  num_workers: writtenByOlder,
  ips: writtenByOlder,
  flags: 'was handed to gcloud, which is not asked here: use the keys of this section in its place',
};

/** The section `tpu`. */
export const tpu = {
  about: 'The TPU that is asked for. A manifest has either this section or `local`.',
  otherwise: 'none',
  kind: section(
    {
      project: {
        kind: line({
          words: 'project',
          pattern: /^[a-z][a-z0-9:.-]{2,62}$/,
          rule: 'is no id of a Google Cloud project',
          meant: (written) =>
            written
              .trim()
              .toLowerCase()
              .replaceAll(/[\s_]+/g, '-'),
        }),
        about: 'The Google Cloud project, or `emulator` for the cloud that is built into jobman and costs nothing.',
        otherwise: 'the one in your settings',
        example: 'my-project',
      },
      allocation_mode: {
        kind: choice('queued-resources', 'tpu-vm'),
        about:
          "`queued-resources` waits in Google's queue until there is capacity; `tpu-vm` asks for the machine directly, again and again.",
        otherwise: 'queued-resources',
        example: 'tpu-vm',
      },
      accelerator: {
        kind: line({ examples: commonTypes }),
        about: "Generation and size, in Google's words.",
        isRequired: true,
        otherwise: 'must be given',
        example: 'v4-8',
      },
      name: {
        kind: line({
          words: 'name',
          pattern: /^[a-z]([a-z0-9-]*[a-z0-9])?$/,
          rule: 'is no name for a TPU (small letters, digits and -, beginning with a letter, not ending with -)',
          meant: plainName,
        }),
        about:
          "First part of the TPU's name in the cloud; the job's id and the number of the allocation follow. In the command `${tpu.name}` is the full name.",
        otherwise: "the job's name",
        example: 'ada-${tpu.accelerator}',
      },
      zone: {
        kind: line({
          words: 'zone',
          pattern: /^[a-z]+-[a-z]+\d+-[a-z]$/,
          rule: 'is no zone; a zone is a region and a letter, as in us-central2-b',
          meant: (written) => zoneMeant(written),
          examples: zones,
        }),
        about: 'The zone that the TPU is made in. Your bucket should be in the same region.',
        isRequired: true,
        otherwise: 'must be given',
        example: 'us-central2-b',
      },
      version: {
        kind: line({
          words: 'version',
          pattern: /^[A-Za-z0-9._-]+$/,
          rule: 'is no runtime version',
          examples: runtimeVersions,
        }),
        about: 'The image of the machines ("runtime version").',
        otherwise: 'the one that Google names for the generation',
        example: 'tpu-ubuntu2204-base',
      },
      pricing: {
        kind: choice('spot', 'ondemand', 'preemptible'),
        about:
          '`spot` is cheapest and can be taken away at any time; `preemptible` is its predecessor; `ondemand` stays.',
        otherwise: 'spot',
        example: 'ondemand',
      },
      ownership: {
        kind: choice('owned', 'standing'),
        about:
          '`owned`: the TPU is made for the job and released with it. `standing`: a TPU of that very name exists before and after the job.',
        otherwise: 'owned',
        example: 'standing',
      },
      startup_script: {
        kind: line({ words: 'path' }),
        about: 'A file here whose content runs as root at every boot of every worker.',
        otherwise: 'none',
        example: 'startup.sh',
      },
      tags: {
        kind: listOf(
          line({
            words: 'tag',
            pattern: /^[a-z]([a-z0-9-]{0,61}[a-z0-9])?$/,
            rule: 'is no network tag (small letters, digits and -)',
            meant: plainName,
          }),
        ),
        about: 'Network tags for firewall rules, which are also labels to filter lists by.',
        otherwise: 'none',
        example: '["jobman", "experiment"]',
      },
      metadata: {
        kind: mapOf(metadataName),
        about: 'Names and values that the machines can read.',
        otherwise: 'none',
        example: '{owner: ada}',
      },
    },
    undefined,
    retired,
  ),
} satisfies Key<unknown>;
