import { generations } from '../../catalogue/accelerators.ts';
import { runtimeVersions } from '../../catalogue/runtime-versions.ts';
import { suggestZone, zones } from '../../catalogue/zones.ts';
import { minute } from '../../core/model/time.ts';
import { choice, duration, line, listOf, mapOf, path, section, bool, int } from '../kinds.ts';
import type { Key } from '../../schema/kinds.ts';
import { writtenByOlderVersion } from './environments.ts';

const metadataName = { pattern: /^[A-Za-z0-9_-]{1,128}$/, rule: 'is no name for metadata (letters, digits, _ and -)' };

/** The smaller types of every generation, which most users want; editors offer them. */
const commonTypes = generations.flatMap(({ prefix, sizes }) =>
  [...sizes.keys()].slice(0, 8).map((size) => `${prefix}${size}`),
);

function suggestName(written: string): string {
  return written
    .trim()
    .toLowerCase()
    .replaceAll(/[^a-z0-9]+/g, '-')
    .replaceAll(/^[^a-z]+|-+$/g, '');
}

const zoneName = line({
  description: 'zone',
  pattern: /^[a-z]+-[a-z]+\d+-[a-z]$/,
  rule: 'is no zone; a zone is a region and a letter, as in us-central2-b',
  suggest: (written) => suggestZone(written),
  examples: zones,
});

const acceleratorType = line({ examples: commonTypes });

const version = line({
  description: 'version',
  pattern: /^[A-Za-z0-9._-]+$/,
  rule: 'is no runtime version',
  examples: runtimeVersions,
});

const topology = line({
  description: 'topology',
  pattern: /^[1-9]\d*x[1-9]\d*(x[1-9]\d*)?$/,
  rule: 'is no topology; it counts chips in two or three directions, as in 2x2x4',
  suggest: (written) =>
    written
      .trim()
      .toLowerCase()
      .replaceAll(/\s*[x*×]\s*/g, 'x'),
});

function computeName(description: string) {
  return line({
    description,
    pattern: /^(projects\/[a-z0-9:.-]+\/[a-z0-9/-]+\/)?[a-z]([a-z0-9-]{0,61}[a-z0-9])?$/,
    rule: `is no name of a ${description} (small letters, digits and -, beginning with a letter)`,
    suggest: suggestName,
  });
}

/** An alternative. Absent keys default to the section's own. */
const alternative = section({
  zone: {
    kind: zoneName,
    description: 'Another zone.',
    defaultText: 'tpu.zone',
    example: 'us-east5-b',
  },
  accelerator: {
    kind: acceleratorType,
    description: 'Another type.',
    defaultText: 'tpu.accelerator',
    example: 'v5litepod-16',
  },
  pricing: {
    kind: choice('spot', 'ondemand', 'preemptible'),
    description: 'Another price.',
    defaultText: 'tpu.pricing',
    example: 'ondemand',
  },
  version: {
    kind: version,
    description: 'The image of the machines there.',
    defaultText: 'tpu.version within a generation, else the one that Google names for it',
    example: 'v2-alpha-tpuv5-lite',
  },
  topology: {
    kind: topology,
    description: 'How the chips are wired there.',
    defaultText: 'tpu.topology for the same type, else as the type says',
    example: '4x4',
  },
});

/** Keys of older versions: some wrote them into their copy of a manifest, others accepted them. */
const retired = {
  num_workers: 'follows from tpu.accelerator; remove it',
  ips: writtenByOlderVersion,
  flags: 'was handed to gcloud, which is not asked here: use the keys of this section in its place',
};

export const tpu = {
  description: 'The TPU that is asked for. A manifest has either this section or `local`.',
  kind: section(
    {
      project: {
        kind: line({
          description: 'project',
          pattern: /^[a-z][a-z0-9:.-]{2,62}$/,
          rule: 'is no id of a Google Cloud project',
          suggest: (written) =>
            written
              .trim()
              .toLowerCase()
              .replaceAll(/[\s_]+/g, '-'),
        }),
        description:
          'The Google Cloud project, or `emulator` for the cloud that is built into jobman and costs nothing.',
        defaultText: 'the one in your settings',
        example: 'my-project',
      },
      allocation_mode: {
        kind: choice('queued-resources', 'tpu-vm'),
        description:
          "`queued-resources` waits in Google's queue until there is capacity; `tpu-vm` asks for the machine directly, again and again.",
        defaultText: 'queued-resources',
        example: 'tpu-vm',
      },
      accelerator: {
        kind: acceleratorType,
        description: "Generation and size, in Google's words.",
        isRequired: true,
        example: 'v4-8',
      },
      name: {
        kind: line({
          description: 'name',
          pattern: /^[a-z]([a-z0-9-]*[a-z0-9])?$/,
          rule: 'is no name for a TPU (small letters, digits and -, beginning with a letter, not ending with -)',
          suggest: suggestName,
        }),
        description:
          "First part of the TPU's name in the cloud; the job's id and the number of the allocation follow. In the command `${tpu.name}` is the full name.",
        defaultText: "the job's name",
        example: 'ada-${tpu.accelerator}',
      },
      zone: {
        kind: zoneName,
        description: 'The zone that the TPU is made in. Your bucket should be in the same region.',
        isRequired: true,
        example: 'us-central2-b',
      },
      version: {
        kind: version,
        description: 'The image of the machines ("runtime version").',
        defaultText: 'the one that Google names for the generation',
        example: 'tpu-ubuntu2204-base',
      },
      pricing: {
        kind: choice('spot', 'ondemand', 'preemptible'),
        description:
          '`spot` is cheapest and can be taken away at any time; `preemptible` is its predecessor; `ondemand` stays.',
        defaultText: 'spot',
        example: 'ondemand',
      },
      ownership: {
        kind: choice('ephemeral', 'persistent'),
        description:
          '`ephemeral`: the TPU is made for the job and released with it. `persistent`: a TPU of that very name exists before and after the job.',
        defaultText: 'ephemeral',
        example: 'persistent',
      },
      adopt: {
        kind: bool(),
        description:
          'Takes the TPU that exists by exactly that name (`tpu.name`) and leaves it there when the job is over: short for `ownership: persistent`. To log in there jobman tries `ssh.private_key` or its own key, then the keys of your ssh_config, the one of gcloud and your SSH agent. While another job uses it, `create` and `start` ask first.',
        defaultText: 'false',
        example: 'true',
      },
      startup_script: {
        kind: path(),
        description: 'A file here whose content runs as root at every boot of every worker.',
        example: 'startup.sh',
      },
      tags: {
        kind: listOf(
          line({
            description: 'tag',
            pattern: /^[a-z]([a-z0-9-]{0,61}[a-z0-9])?$/,
            rule: 'is no network tag (small letters, digits and -)',
            suggest: suggestName,
          }),
        ),
        description: 'Network tags for firewall rules, which are also labels to filter lists by.',
        example: '["jobman", "experiment"]',
      },
      metadata: {
        kind: mapOf(metadataName),
        description: 'Names and values that the machines can read. `owner` is shown by `show`.',
        example: '{owner: ada}',
      },
      alternatives: {
        kind: listOf(alternative, 'list of places'),
        description:
          'Other places, in the order of your liking, which are asked when this one has nothing: after a stockout, a lack of quota, a missing right, or a wait longer than `alternatives_wait`.',
      },
      alternatives_wait: {
        kind: duration(minute),
        description: 'How long one place may let a request wait before the next is asked in its stead.',
        defaultText: '15m',
        example: '30m',
      },
      reservation: {
        kind: computeName('reservation'),
        description: 'A reservation of your project, whose capacity is asked for. With it `pricing` is `ondemand`.',
        example: 'lab-v4',
      },
      network: {
        kind: computeName('network'),
        description: 'The network of the machines.',
        defaultText: '`default`, as Google calls it',
        example: 'tpu-net',
      },
      subnetwork: {
        kind: computeName('subnetwork'),
        description: "The network's part in the zone's region.",
        defaultText: "the network's own choice",
        example: 'tpu-net-us-central2',
      },
      service_account: {
        kind: line({
          description: 'service account',
          pattern: /^[^@\s]+@[^@\s]+\.[^@\s]+$/,
          rule: 'is no service account; it is written like an e-mail address',
        }),
        description: 'The service account that programs on the machines act as.',
        defaultText: "the project's default one",
        example: 'trainer@${tpu.project}.iam.gserviceaccount.com',
      },
      data_disks: {
        kind: listOf(
          section({
            source: {
              kind: computeName('disk'),
              description: "A disk's name in the zone, or its full one.",
              isRequired: true,
              example: 'imagenet',
            },
            mode: {
              kind: choice('read-only', 'read-write'),
              description: 'Several workers can share a disk only to read it.',
              defaultText: 'read-write on one worker, read-only on several',
              example: 'read-only',
            },
          }),
          'list of disks',
        ),
        description: 'Disks that exist already and that every worker gets.',
      },
      topology: {
        kind: topology,
        description: 'How the chips are wired, in chips, where a type comes in several ways.',
        defaultText: 'as the type says',
        example: '2x2x2',
      },
      node_count: {
        kind: int(1, 256),
        description:
          'How many such TPUs are asked for as one multislice, all or none. Their workers are numbered through. Needs `queued-resources`.',
        defaultText: '1',
        example: '2',
      },
      valid_until: {
        kind: duration(minute),
        description: 'How long Google keeps the request in its queue; then it is made anew. Needs `queued-resources`.',
        defaultText: 'without limit',
        example: '6h',
      },
    },
    undefined,
    retired,
  ),
} satisfies Key<unknown>;
