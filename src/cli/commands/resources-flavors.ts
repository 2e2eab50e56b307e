import { exitCode } from '../../app/errors.ts';
import { gpuCount, isGpu, type Amounts } from '../../app/cluster/amounts.ts';
import { withLimits, type Flavor } from '../../app/cluster/flavor.ts';
import { quantityKey } from '../../app/cluster/quantity.ts';
import type { Cli, GlobalFlags } from '../context.ts';
import { fittedTable, type Column } from '../render/aligned.ts';
import { columnsOf } from '../screen.ts';

export async function resourcesFlavors(cli: Cli, _flags: GlobalFlags): Promise<number> {
  const { settings } = await cli.services.clusterSettings();
  const { default: defaultFlavor, predefined } = settings.job.resources;
  const { gpuResources } = settings.jobsQueue;
  if (cli.json) {
    for (const flavor of predefined) {
      const { requests, limits } = withLimits(flavor.resources);
      const { name, description } = flavor;
      const gpus = gpuCount(requests, gpuResources);
      const isDefault = name === defaultFlavor;
      cli.printJson({ name, description: description ?? null, default: isDefault, gpus, requests, limits });
    }
    return exitCode.ok;
  }
  const columns: readonly Column<Flavor>[] = [
    { title: 'FLAVOR', text: ({ name }) => name + (name === defaultFlavor ? ' (default)' : '') },
    { title: 'CPU', text: (flavor) => formatQuantity(flavor, 'cpu') },
    { title: 'MEMORY', text: (flavor) => formatQuantity(flavor, 'memory') },
    { title: 'GPUS', text: ({ resources }) => formatGpus(resources.requests, gpuResources) },
    { title: 'DESCRIPTION', text: ({ description }) => description ?? '' },
  ];
  cli.printAll(fittedTable(columns, predefined, [], columnsOf(cli.io.stdout)));
  if (predefined.length === 0) {
    cli.note('The settings have no flavors: job.resources.predefined. docs/kubernetes.md shows how they are written.');
  }
  return exitCode.ok;
}

function formatQuantity({ resources: { requests, limits } }: Flavor, name: string): string {
  const [asked, most] = [requests[name], limits?.[name]];
  if (most === undefined) return asked ?? '-';
  if (asked === undefined) return `at most ${most}`;
  return quantityKey(asked) === quantityKey(most) ? asked : `${asked}, at most ${most}`;
}

function formatGpus(requests: Amounts, gpuResources: readonly string[]): string {
  const kinds = Object.keys(requests).filter((name) => isGpu(name, gpuResources));
  return kinds.length === 0 ? '-' : `${gpuCount(requests, gpuResources)} ${kinds.join(' + ')}`;
}
