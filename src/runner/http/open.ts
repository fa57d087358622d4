/** Opens the connections of `ctx.http` on real sockets. For the program of a runner; everything else hands in its own. */
import type { OpenHttp } from '../http-port.ts';
import { LoadClient } from './client.ts';
import { dialSocket, latin1 } from './sockets.ts';

export const openHttp: OpenHttp = ({ clock }) => new LoadClient({ clock, dial: dialSocket, latin1 });
