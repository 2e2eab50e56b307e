import type { ImportLine } from '../../lab/import-old-data.ts';
import type { Cli } from '../context.ts';
import { escapeForTerminal } from '../../app/format.ts';

const symbols: Readonly<Record<ImportLine['kind'], string>> = { import: '+', exists: '=', skip: '-', note: '!' };

export function printImport(cli: Cli, lines: readonly ImportLine[], isApplied: boolean): void {
  if (cli.json) {
    for (const line of lines) cli.printJson({ ...line, done: isApplied && line.kind === 'import' });
    return;
  }
  for (const { kind, subject, message } of lines) {
    if (kind !== 'exists')
      cli.print(escapeForTerminal(`${symbols[kind]} ${subject}${message === '' ? '' : `: ${message}`}`, false));
  }
  const count = (kind: ImportLine['kind']): number => lines.filter((line) => line.kind === kind).length;
  const [taken, here, left] = [count('import'), count('exists'), count('skip')];
  const rest = `unchanged: ${here}, skipped (-): ${left}.`;
  if (isApplied) cli.printSentence(`Imported (+): ${taken}, ${rest}`);
  else if (taken === 0) cli.printSentence(`Nothing to import; ${rest}`);
  else cli.printSentence(`To import (+): ${taken}, ${rest} Nothing changed yet; import with --apply.`);
}
