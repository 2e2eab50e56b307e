// The settings in force on the machine of the controller. They are in files there, so a person changes them there.

import { escapeLine } from '../../app/format.ts';
import { address, changeQuery } from '../location.ts';
import { Command, PageCommand } from '../parts/command.tsx';
import { FilteredOut } from '../parts/messages.tsx';
import { Shown, useReading } from '../parts/reading.tsx';
import { client } from '../session.ts';

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
            <div class="scroll">
              <table class="plain-table" aria-label="Settings">
                <thead>
                  <tr>
                    {['Setting', 'Value', 'From'].map((title) => (
                      <th key={title} scope="col">
                        {title}
                      </th>
                    ))}
                  </tr>
                </thead>
                <tbody>
                  {shown.map(({ key, value, source }) => (
                    <tr key={key}>
                      <th scope="row">
                        <code>{key}</code>
                      </th>
                      <td>
                        <code>{escapeLine(typeof value === 'string' ? value : JSON.stringify(value))}</code>
                      </td>
                      <td class={source === 'default' ? 'quiet' : ''}>{escapeLine(source)}</td>
                    </tr>
                  ))}
                </tbody>
              </table>
            </div>
          );
        }}
      </Shown>
    </section>
  );
}
