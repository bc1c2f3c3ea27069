"""The same thousand orders in one process over one file, which is killed five times."""

from __future__ import annotations

import shutil

import pytest

from tests.parts.processes import ProductProcess, run_command
from tests.parts.thousand.book import make_book
from tests.parts.thousand.misfortunes import Misfortunes
from tests.parts.thousand.play import Play
from tests.parts.thousand.run import choose_seed, live_through, log_folder, stop_all, timed, told_of
from tests.parts.thousand.settings import write_settings
from tests.parts.thousand.shop import SqlShop
from tests.parts.thousand.story import ChainLetter
from tests.parts.thousand.street import Street
from tests.parts.thousand.tie_out import check_the_end

KILLS = 5


@pytest.mark.scenario
@pytest.mark.anvil
@pytest.mark.timeout(900)
async def test_thousand_orders_in_one_process_survive_five_kills(
    streets: dict[ChainLetter, Street],
):
    seed = choose_seed()
    folder = log_folder("thousand-sqlite")
    database = f"sqlite+aiosqlite:///{folder}/reconciler.db"
    config = write_settings(folder, streets, database=database, more="")
    code, _, said = await run_command("migrate", config=config)
    assert code == 0, said.decode()
    process = ProductProcess("run", "run", config=config, folder=folder)
    shop = SqlShop(database)
    await shop.open()
    play = Play(make_book(seed), streets, shop)
    misfortunes = Misfortunes(seed, [process], times=KILLS, progress=lambda: play.progress)
    try:
        process.start()
        await live_through(play, misfortunes)
        await play.rest()
        await stop_all([process])
        with timed("checks"):
            await check_the_end(play, config)
        assert process.kills == KILLS
    except Exception as error:
        error.add_note(await told_of(play, database, folder))
        raise
    finally:
        process.kill()
        await shop.close()
    shutil.rmtree(folder)
