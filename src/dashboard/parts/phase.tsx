import { formatStatus, phaseGlyphs } from '../../app/format.ts';
import type { JobRow } from '../../app/client.ts';

/** The glyph and the name of the phase. */
export function PhaseLabel({ row }: { readonly row: Pick<JobRow, 'phase' | 'heldCapacity'> }) {
  return (
    <span class={`phase phase-${row.phase}`} title={formatStatus(row)}>
      <span aria-hidden="true">{phaseGlyphs[row.phase][0]}</span> {formatStatus(row)}
    </span>
  );
}
