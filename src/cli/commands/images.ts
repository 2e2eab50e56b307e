// images: what the registry of the settings has for jobs to run.

import { exitCode } from '../../app/errors.ts';
import { ageText, countText } from '../../app/figures.ts';
import type { ImageRow } from '../../app/images.ts';
import type { Cli } from '../context.ts';
import { aligned } from '../render/aligned.ts';
import { inertWord } from '../render/inert.ts';
import { columnsOf } from '../screen.ts';
import { noteAge } from '../images/age.ts';

/** One line an image; asks no cluster. */
export async function images(cli: Cli, flags: { readonly refresh?: boolean | undefined }): Promise<number> {
  const port = await cli.services.images();
  try {
    const found = await port.list({ refresh: flags.refresh === true });
    const { value: rows, at } = found;
    if (cli.json) cli.printObjects(rows.map((row) => ({ ...row, asOf: at })));
    else if (rows.length > 0) {
      const now = cli.io.now();
      const table = [['IMAGE', 'UPDATED', 'TAGS'], ...rows.map((row) => cells(row, now))];
      cli.printAll(aligned(table, ['left', 'right', 'left'], columnsOf(cli.io.stdout)));
    }
    if (!cli.json) cli.note(`${countText(rows.length, 'image')} on ${port.server}`);
    noteAge(cli, found);
    return exitCode.ok;
  } finally {
    port.close();
  }
}

function cells({ name, updatedAt, tags }: ImageRow, now: number): readonly string[] {
  return [inertWord(name), updatedAt === null ? '-' : ageText(now - updatedAt), inertWord(tags.join(', ')) || '-'];
}
