/** Entry file of the sample target process: prints a ready line, and ends with its parent. `[PORT]` is its argument. */
import { onParentExit } from '../agent/parent-watch.ts';
import { startSampleTarget } from './sample-target.ts';
import { printData } from '../output/terminal.ts';

onParentExit(() => process.exit(0));
const { url } = await startSampleTarget(Number(process.argv[2] ?? 0));
printData(JSON.stringify({ ready: true, url }));
