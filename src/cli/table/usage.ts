import { command, grouped } from '../command.ts';
import { pricesFlags, quotaFlags } from './flags.ts';

export const usage = grouped('Usage', [
  command({
    names: ['quota'],
    summary: 'Show TPU quotas: limit, use, what can be released, what is left',
    usage: '[--project p] [--zone z]',
    about:
      "One row for each zone, generation and pricing with a limit above 0 or a TPU, in chips. LIMIT is Google's limit " +
      'of the zone, or of its region if that leaves less. USED counts TPUs until they are deleted, also preempted ' +
      'nodes and suspended or failed queued resources. RECLAIMABLE is the part that is dead, an orphan, or kept by a ' +
      'finished job for ten minutes; the lines below the table name the commands that release it. REQUESTED waits ' +
      'for capacity.\n\n' +
      'The projects are those of `jobman tpus`. The command changes nothing.',
    examples: [
      ['jobman quota', 'the projects of your settings and jobs'],
      ['jobman quota --project my-project --zone us-east5-b', 'one zone, also limits of 0'],
      ["jobman quota --json | jq -r '.holders[].command // empty'", 'the commands that release something'],
    ],
    exitCodes: {
      1: 'no limit could be read, because a permission is missing',
      5: 'no project answered; if at least one answered, the code is 0',
    },
    flags: quotaFlags,
    load: async () => (await import('../commands/quota.ts')).quota,
  }),
  command({
    names: ['prices'],
    summary: 'List prices of accelerators: list prices of Google, and your own',
    usage: '[type...] [--zone z]',
    about:
      'A type like v5litepod-16 has a price for each chip-hour and for each hour of the whole. Without a type, the ' +
      'command lists every generation. List prices are estimates; the last line names their source and date.\n\n' +
      'The setting `prices` replaces them with your own, also for resource flavors and machines; docs/costs.md shows ' +
      'how. The command does not contact a cloud.',
    examples: [
      ['jobman prices v5litepod-16', 'by region and pricing'],
      ['jobman prices v5e v6e --zone europe-west4-b', 'two generations in one zone'],
      ["jobman prices --json | jq -s 'sort_by(.pricePerChipHourUsd) | .[0]'", 'for programs: one object per line'],
    ],
    exitCodes: { 3: 'there is no such type' },
    flags: pricesFlags,
    args: [
      { name: 'type', summary: 'An accelerator type, a generation, or a flavor or machine of your prices', many: true },
    ],
    load: async () => (await import('../commands/prices.ts')).prices,
  }),
]);
