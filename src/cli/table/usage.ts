import { command, grouped } from '../command.ts';
import { pricesFlags } from './flags.ts';

export const usage = grouped('Usage', [
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
