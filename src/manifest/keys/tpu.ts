import { projectIdPattern } from '../../core/model/spec.ts';
import { generations } from '../../catalogue/accelerators.ts';
import { runtimeVersions } from '../../catalogue/runtime-versions.ts';
import { suggestZone, zones } from '../../catalogue/zones.ts';
import { minute } from '../../core/model/time.ts';
import { oneOf, duration, line, listOf, mapOf, path, section, int, flag } from '../kinds.ts';
import { key, type Key } from '../../schema/kinds.ts';
import { setByJobman } from './environments.ts';

const metadataName = {
  pattern: /^[A-Za-z0-9_-]{1,128}$/,
  rule: 'is not a valid metadata key (letters, digits, _ and -)',
};

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
  rule: 'is not a zone; write a region and a letter, such as us-central2-b',
  suggest: (written) => suggestZone(written),
  examples: zones,
});

const acceleratorType = line({ examples: commonTypes });

const version = line({
  description: 'runtime version',
  pattern: /^[A-Za-z0-9._-]+$/,
  examples: runtimeVersions,
});

const topology = line({
  description: 'topology',
  pattern: /^[1-9]\d*x[1-9]\d*(x[1-9]\d*)?$/,
  rule: 'is not a topology; write the chips in two or three dimensions, such as 2x2x4',
  suggest: (written) => written.replaceAll(/\s*[x*×]\s*/gi, 'x').trim(),
});

function computeName(description: string) {
  return line({
    description,
    pattern: /^(projects\/[a-z0-9:.-]+\/[a-z0-9/-]+\/)?[a-z]([a-z0-9-]{0,61}[a-z0-9])?$/,
    rule: `is not a valid name of a ${description} (lower-case letters, digits and -, beginning with a letter)`,
    suggest: suggestName,
  });
}

const pricing = oneOf(['spot', 'ondemand', 'preemptible']);

/** An alternative. Absent keys default to the section's own. */
const alternative = section({
  zone: key(zoneName, 'Another zone.', { defaultText: 'tpu.zone', example: 'us-east5-b' }),
  accelerator: key(acceleratorType, 'Another accelerator type.', {
    defaultText: 'tpu.accelerator',
    example: 'v5litepod-16',
  }),
  pricing: key(pricing, 'Another pricing.', {
    defaultText: 'tpu.pricing',
    example: 'ondemand',
  }),
  version: key(version, 'Another runtime version.', {
    defaultText: 'tpu.version for the same generation, otherwise the version that Google recommends',
    example: 'v2-alpha-tpuv5-lite',
  }),
  topology: key(topology, 'Another topology.', {
    defaultText: 'tpu.topology for the same type, otherwise the default of the type',
    example: '4x4',
  }),
});

const retired = {
  num_workers: 'is not needed: tpu.accelerator determines it; remove it',
  ips: setByJobman,
  flags: 'is not supported, because jobman does not call gcloud; use the keys of this section',
  region: 'is not a key; name a zone of the region, such as zone: us-central2-b',
  spot: 'is not a key; write pricing: spot or pricing: ondemand',
  type: 'is not a key; write accelerator: v4-8',
};

export const tpu = {
  description: 'The TPU of the job. A manifest has this section, `hosts`, `local` or `kubernetes`.',
  kind: section(
    {
      project: key(
        line({ description: 'project id', pattern: projectIdPattern, suggest: suggestName }),
        'The Google Cloud project, or `emulator` for the TPU emulator, which is free.',
        { defaultText: '`tpu.project` of your settings', example: 'my-project' },
      ),
      allocation_mode: key(
        oneOf(['queued-resources', 'tpu-vm']),
        "`queued-resources` waits in Google's queue for capacity; `tpu-vm` requests the TPU directly and retries.",
        { defaultText: 'queued-resources', example: 'tpu-vm' },
      ),
      accelerator: key(acceleratorType, "Google's accelerator type: generation and size.", {
        isRequired: true,
        example: 'v4-8',
      }),
      name: key(
        line({
          description: 'name',
          pattern: /^[a-z]([a-z0-9-]*[a-z0-9])?$/,
          rule: 'is not a valid TPU name (lower-case letters, digits and -, beginning with a letter, not ending with -)',
          suggest: suggestName,
        }),
        "First part of the TPU's name in the cloud, before the job's id and the allocation number. In the command `${tpu.name}` is the full name.",
        { defaultText: "the job's name", example: 'ada-${tpu.accelerator}' },
      ),
      zone: key(zoneName, 'Zone of the TPU. Your bucket should be in the same region.', {
        isRequired: true,
        example: 'us-central2-b',
      }),
      version: key(version, 'Runtime version: the image of the TPU VMs.', {
        defaultText: 'the version that Google recommends for the generation',
        example: 'tpu-ubuntu2204-base',
      }),
      pricing: key(
        pricing,
        '`spot` is the cheapest, but Google may preempt the TPU at any time; `preemptible` is the predecessor of `spot`; `ondemand` is not preempted.',
        { defaultText: 'spot', example: 'ondemand' },
      ),
      ownership: key(
        oneOf(['ephemeral', 'persistent']),
        '`ephemeral`: jobman creates the TPU for the job and releases it with the job. `persistent`: the TPU named `tpu.name` exists before and after the job.',
        { defaultText: 'ephemeral', example: 'persistent' },
      ),
      adopt: flag(
        'Use the existing TPU named `tpu.name` and keep it when the job finishes; the same as `ownership: persistent`. To log in, jobman tries `ssh.private_key` or its own key, then the keys in your ssh_config, the key of gcloud and your SSH agent. While another job uses the TPU, `create` and `start` ask for confirmation, and the confirmed job waits.',
      ),
      startup_script: key(path(), 'Script on this machine that runs as root at every boot of every worker.', {
        example: 'startup.sh',
      }),
      tags: key(
        listOf(
          line({
            description: 'tag',
            pattern: /^[a-z]([a-z0-9-]{0,61}[a-z0-9])?$/,
            rule: 'is not a valid network tag (lower-case letters, digits and -)',
            suggest: suggestName,
          }),
        ),
        'Network tags for firewall rules. They are also labels to filter lists by.',
        { example: '["jobman", "experiment"]' },
      ),
      metadata: key(mapOf(metadataName), 'Metadata that the TPU VMs can read. `jobman show` prints `owner`.', {
        example: '{owner: ada}',
      }),
      alternatives: key(
        listOf(alternative, 'list of alternatives'),
        'Other zones, types or prices, in order of preference. jobman tries the next one after a stockout, a missing quota, a missing permission, or a wait longer than `alternatives_wait`.',
      ),
      alternatives_wait: key(
        duration(minute),
        'How long a request may wait before jobman tries the next alternative.',
        { defaultText: '15m', example: '30m' },
      ),
      reservation: key(
        computeName('reservation'),
        'Reservation of your project to use. With it `pricing` is `ondemand`.',
        { example: 'lab-v4' },
      ),
      network: key(computeName('network'), 'Network of the TPU VMs.', { defaultText: '`default`', example: 'tpu-net' }),
      subnetwork: key(computeName('subnetwork'), "Subnetwork in the zone's region.", {
        defaultText: "Google's choice",
        example: 'tpu-net-us-central2',
      }),
      service_account: key(
        line({
          description: 'service account',
          pattern: /^[^@\s]+@[^@\s]+\.[^@\s]+$/,
          rule: 'is not a service account; write its e-mail address',
        }),
        'Service account of programs on the TPU VMs.',
        { defaultText: "the project's default account", example: 'trainer@${tpu.project}.iam.gserviceaccount.com' },
      ),
      data_disks: {
        kind: listOf(
          section({
            source: key(computeName('disk'), 'Name of a disk in the zone, or its full resource name.', {
              isRequired: true,
              example: 'imagenet',
            }),
            mode: key(oneOf(['read-only', 'read-write']), 'Several workers can only share a read-only disk.', {
              defaultText: 'read-write on one worker, read-only on several',
              example: 'read-only',
            }),
          }),
          'list of disks',
        ),
        description: 'Existing disks to attach to every worker.',
      },
      topology: key(topology, 'Arrangement of the chips, for types that have several.', {
        defaultText: 'the default of the type',
        example: '2x2x2',
      }),
      node_count: key(
        int(1, 256),
        'Number of TPUs in one multislice, which Google allocates all or none. Worker numbers continue over all TPUs. Requires `queued-resources`.',
        { defaultText: '1', example: '2' },
      ),
      valid_until: key(
        duration(minute),
        'How long Google keeps the request in its queue; then jobman requests again. Requires `queued-resources`.',
        { defaultText: 'no limit', example: '6h' },
      ),
    },
    undefined,
    retired,
  ),
} satisfies Key<unknown>;
