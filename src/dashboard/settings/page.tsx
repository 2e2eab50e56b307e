// The effective settings of the machine of the controller. They are in files there, so a person changes them there.

import type { SettingRow } from '../../app/client.ts';
import { escapeLine } from '../../app/format.ts';
import { address, changeQuery } from '../location.ts';
import { Command, PageCommand } from '../parts/command.tsx';
import { FilteredOut } from '../parts/messages.tsx';
import { PlainTable, type PlainColumn } from '../parts/plain-table.tsx';
import { Shown, useReading } from '../parts/reading.tsx';
import { client } from '../session.ts';

const columns: readonly PlainColumn<SettingRow>[] = [
  { title: 'Setting', cell: ({ key }) => <code>{key}</code> },
  {
    title: 'Value',
    width: '50%',
    cell: ({ value }) => <code>{escapeLine(typeof value === 'string' ? value : JSON.stringify(value))}</code>,
  },
  {
    title: 'Source',
    cell: ({ source }) => escapeLine(source),
    cellClass: ({ source }) => (source === 'default' ? 'quiet' : ''),
  },
];

export function SettingsPage() {
  const settings = useReading(() => client.settings(), []);
  const wanted = address.value.query.get('filter') ?? '';
  return (
    <section class="page">
      <div class="bar">
        <h1>Settings</h1>
        <label class="switch">
          Filter
          <input type="search" value={wanted} onInput={(event) => changeQuery({ filter: event.currentTarget.value })} />
        </label>
        <PageCommand text="jobman settings" />
      </div>
      <p class="quiet">
        The settings are in files on the machine of the controller. Change them there:{' '}
        <Command text="jobman settings set KEY VALUE" />
      </p>
      <Shown reading={settings}>
        {(rows) => {
          const shown = rows.filter(({ key }) => key.toLowerCase().includes(wanted.toLowerCase()));
          return shown.length === 0 ? (
            <FilteredOut onClear={() => changeQuery({ filter: null })}>
              None of {rows.length} settings has a name that contains “{wanted}”.
            </FilteredOut>
          ) : (
            <PlainTable label="Settings" rows={shown} columns={columns} keyOf={({ key }) => key} />
          );
        }}
      </Shown>
    </section>
  );
}
