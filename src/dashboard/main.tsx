// The start of the dashboard in a browser.

import './style.css';
import { render } from 'preact';
import { startClock } from './clock.ts';
import { listenForKeys } from './keys.ts';
import { followChanges } from './live.ts';
import { address, followLinks, goTo, pageHref } from './location.ts';
import { startSession } from './session.ts';
import { Shell } from './shell.tsx';

if (address.value.path.length === 0) goTo(pageHref(['jobs']));
followLinks();
listenForKeys();
startClock();
followChanges();
void startSession();
const page = document.querySelector('#page');
if (page !== null) render(<Shell />, page);
