import pytest

from rocmwatch.kernel.hwmon import plan

MI300 = {
    "name": b"",
    "temp2_input": b"",
    "temp2_label": b"junction\n",
    "temp2_crit": b"",
    "temp2_crit_hyst": b"",
    "temp2_emergency": b"",
    "temp3_input": b"",
    "temp3_label": b"mem\n",
    "temp3_crit": b"",
    "power1_input": b"",
    "power1_label": b"PPT\n",
    "power1_cap": b"",
    "freq1_input": b"",
    "freq1_label": b"sclk\n",
    "freq2_input": b"",
    "freq2_label": b"mclk\n",
    "uevent": b"",
}


def files_of(readings):
    return {reading.name: reading.file for reading in readings}


def test_sensors_are_told_by_their_label():
    assert files_of(plan(MI300).readings) == {
        "temperature_junction": "temp2_input",
        "temperature_memory": "temp3_input",
        "clock_sclk": "freq1_input",
        "clock_mclk": "freq2_input",
        "power": "power1_input",
    }


def test_limits_are_named_after_their_sensor():
    assert files_of(plan(MI300).limits) == {
        "limit_critical_junction": "temp2_crit",
        "limit_emergency_junction": "temp2_emergency",
        "limit_critical_memory": "temp3_crit",
        "power_cap": "power1_cap",
    }


def test_numbers_do_not_matter_where_labels_are():
    files = {"temp1_input": b"", "temp1_label": b"mem\n", "temp7_input": b"", "temp7_label": b"edge\n\0\0"}
    assert files_of(plan(files).readings) == {"temperature_edge": "temp7_input", "temperature_memory": "temp1_input"}


def test_without_any_label_the_first_temperature_is_the_edge():
    assert files_of(plan({"temp1_input": b"", "temp1_crit": b""}).readings) == {"temperature_edge": "temp1_input"}
    assert files_of(plan({"temp1_input": b"", "temp1_crit": b""}).limits) == {"limit_critical_edge": "temp1_crit"}


def test_a_label_that_could_not_be_read_is_not_guessed():
    assert plan({"temp1_input": b"", "temp1_label": b""}).readings == ()


@pytest.mark.parametrize(
    ("names", "file"),
    [
        (("power1_input", "power1_average"), "power1_input"),
        (("power1_average",), "power1_average"),
        (("power2_average", "power2_input"), None),
        (("power1_label",), None),
    ],
)
def test_power_now_is_better_than_its_average(names, file):
    readings = files_of(plan(dict.fromkeys(names, b"")).readings)
    assert ({} if file is None else {"power": file}) == readings


def test_the_first_sensor_of_a_label_counts():
    files = {"temp1_input": b"", "temp1_label": b"edge\n", "temp2_input": b"", "temp2_label": b"edge\n"}
    assert files_of(plan(files).readings) == {"temperature_edge": "temp1_input"}


def test_a_label_without_an_input_is_no_sensor():
    assert plan({"temp1_label": b"edge\n", "freq1_label": b"sclk\n"}).readings == ()


def test_units_are_those_of_the_kernel():
    by_name = {reading.name: reading for reading in (*plan(MI300).readings, *plan(MI300).limits)}
    assert 61000 * by_name["temperature_junction"].scale == 61.0
    assert pytest.approx(587_000_000 * by_name["power"].scale) == 587.0
    assert 1_700_000_000 * by_name["clock_sclk"].scale == 1_700_000_000.0
    assert 100_000 * by_name["limit_critical_junction"].scale == 100.0


def test_a_power_of_0_is_absence_and_a_temperature_of_0_is_out_of_range():
    by_name = {reading.name: reading for reading in (*plan(MI300).readings, *plan(MI300).limits)}
    assert (by_name["power"].zero_is_absent, by_name["power"].low) == (True, 0)
    assert (by_name["power_cap"].zero_is_absent, by_name["power_cap"].low) == (True, 0)
    assert (by_name["temperature_memory"].zero_is_absent, by_name["temperature_memory"].low) == (False, 1)
    assert (by_name["clock_sclk"].zero_is_absent, by_name["clock_sclk"].low) == (False, 0)


def test_an_empty_folder_gives_nothing():
    assert plan({}) == ((), ())
