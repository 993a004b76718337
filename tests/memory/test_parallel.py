import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from doctor.memory import config as cfg
from doctor.memory import parallel


def resolve(version="0.5.23", **arguments):
    return parallel.resolve_ranks(arguments, version)


def test_resolve_ranks_of_nothing_is_one_rank():
    assert resolve() == parallel.ONE_RANK


def test_resolve_ranks_of_plain_tensor_parallelism():
    ranks = resolve(tp_size=8)
    assert (ranks.attention, ranks.moe, ranks.experts, ranks.dense, ranks.head) == (8, 8, 1, 8, 8)
    assert parallel.count_gpus(ranks) == 8


def test_resolve_ranks_of_attention_dp_keeps_attention_whole():
    ranks = resolve(tp_size=8, dp_size=8, enable_dp_attention=True)
    assert (ranks.attention, ranks.attention_dp, ranks.embedding, ranks.head) == (1, 8, 1, 8)
    assert parallel.count_gpus(ranks) == 8


def test_resolve_ranks_of_attention_dp_by_its_new_name():
    assert resolve(tp_size=8, attn_dp_size=4).attention == 2


def test_resolve_ranks_before_the_new_name_ignores_it():
    assert resolve("0.5.19", tp_size=8, attn_dp_size=4).attention == 8


def test_resolve_ranks_of_plain_dp_multiplies_gpus():
    ranks = resolve(tp_size=2, dp_size=3)
    assert (ranks.replicas, parallel.count_gpus(ranks), parallel.count_local(ranks)) == (3, 6, 6)


def test_resolve_ranks_of_deepep_spreads_experts_over_all():
    ranks = resolve(tp_size=8, moe_a2a_backend="deepep")
    assert (ranks.experts, ranks.moe, ranks.shared) == (8, 1, 1)


def test_resolve_ranks_of_expert_parallelism_within_tp():
    ranks = resolve(tp_size=8, ep_size=4)
    assert (ranks.experts, ranks.moe) == (4, 2)


def test_count_local_over_two_nodes():
    assert parallel.count_local(resolve(tp_size=16, nnodes=2)) == 8


@pytest.mark.parametrize(("layers", "pp", "sizes"), [(8, 2, [4, 4]), (61, 4, [15, 15, 15, 16]), (3, 4, [0, 1, 1, 1])])
def test_split_stages_gives_the_last_ones_more(layers, pp, sizes):
    assert [len(stage) for stage in parallel.split_stages(layers, pp)] == sizes


@settings(deadline=None)
@given(st.integers(0, 300), st.integers(1, 40))
def test_split_stages_covers_every_layer_once(layers, pp):
    stages = parallel.split_stages(layers, pp)
    assert [layer for stage in stages for layer in stage] == list(range(layers))


@pytest.mark.parametrize("value", [-4, "8", None, True, 1.5, 10**30])
def test_read_size_of_nonsense_is_the_default(value):
    assert parallel.read_size({"tp_size": value}, "tp_size") == 1


def test_find_conflicts_names_what_cannot_be_divided():
    config = cfg.make_config({"num_attention_heads": 28, "moe_intermediate_size": 1408})
    assert parallel.find_conflicts(config, resolve(tp_size=4)) == []
    notes = parallel.find_conflicts(config, resolve(tp_size=8))
    assert notes == ["28 attention heads cannot be divided among 8 ranks"]


def test_find_conflicts_of_uneven_groups():
    config = cfg.make_config({"num_attention_heads": 12})
    notes = parallel.find_conflicts(config, resolve(tp_size=4, dp_size=3, enable_dp_attention=True, ep_size=3))
    assert len(notes) == 2
